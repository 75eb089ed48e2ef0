package adapter

import (
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How often a member speaks to the group and asks for metadata: as in ci/clients/member.py.
const (
	Heartbeat = 500 * time.Millisecond
	Metadata  = time.Second
)

// Wish is what a member is to be; ci/clients/member.py describes it, and what a member says.
type Wish struct {
	Topics                    []string
	Group, Assignor, Instance string
	Session                   time.Duration
}

// Member gives the wish when the program was started as `BOOTSTRAP member ...`.
func Member() (Wish, bool) {
	if len(os.Args) < 5 || os.Args[2] != "member" {
		return Wish{}, false
	}
	wish := Wish{Topics: strings.Split(os.Args[3], ","), Group: os.Args[4], Session: 6 * time.Second}
	for _, word := range os.Args[5:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "assignor":
			wish.Assignor = value
		case "instance":
			wish.Instance = value
		case "session":
			ms, err := strconv.Atoi(value)
			Must(err)
			wish.Session = time.Duration(ms) * time.Millisecond
		default:
			Must(fmt.Errorf("no wish %s", word))
		}
	}
	return wish, true
}

// Must ends the program with an error.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Leave is closed when the member is to leave: when stdin ends.
func Leave() <-chan struct{} {
	leave := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(leave)
	}()
	return leave
}

var saying sync.Mutex

// Say prints one line, whole.
func Say(words ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(words...)
}

// SayAssigned prints all that the member has now.
func SayAssigned(held map[string][]int32) {
	words := []string{}
	for topic, partitions := range held {
		for _, p := range partitions {
			words = append(words, fmt.Sprintf("%s:%d", topic, p))
		}
	}
	sort.Strings(words)
	Say("assigned", strings.Join(words, " "))
}
