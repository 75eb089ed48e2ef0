// Package adapter is the loop that each Go client program runs, and the records in their text form: the
// same as ci/clients/adapter.py and records.py, which describe both.
package adapter

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// Patience is how long a command waits for the broker, in seconds.
const Patience = 60

// ErrTimeout says that neither an answer nor an error came.
var ErrTimeout = errors.New("neither a record nor an error in time")

// Cannot is the answer of a client that has no such function.
type Cannot string

func (c Cannot) Error() string { return string(c) }

// Header is one name and value; a nil value is null.
type Header struct {
	Name  string
	Value []byte
}

// Record is one line of a file of records.
type Record struct {
	Partition  int32
	Offset     int64
	Timestamp  int64 // milliseconds
	Key, Value []byte
	Headers    []Header
}

// Range is what is read of a partition: from First up to, but without, End.
type Range struct{ First, End int64 }

// Client is what each program implements. Answers are lines.
type Client interface {
	Create(topic string, partitions int) error
	Write(topic, codec string, records []Record) ([]string, error)
	Read(topic string, wanted map[int32]Range) ([]Record, error)
	OffsetFor(topic string, partition int32, timestamp int64) (string, error)
	Bounds(topic string, partition int32) (first, end int64, err error)
	OutOfRange(topic string, partition int32, offset int64, where string) (string, error)
	Transactional(timeoutSeconds int) (string, error)
}

// Serve answers commands until stdin ends. The version is that of the module, as it is compiled in.
func Serve(module string, client Client) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		answers, err := answer(module, client, strings.Fields(in.Text()))
		var cannot Cannot
		switch {
		case errors.As(err, &cannot):
			fmt.Printf("cannot %s\n", cannot)
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			fmt.Printf("failed %s\n", strings.Join(strings.Fields(err.Error()), " "))
		default:
			fmt.Println(strings.Join(append(answers, "done"), "\n"))
		}
	}
}

func answer(module string, client Client, c []string) ([]string, error) {
	number := func(i int) int64 {
		n, err := strconv.ParseInt(c[i], 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	one := func(line string, err error) ([]string, error) { return []string{line}, err }
	switch c[0] {
	case "version":
		return one(version(module))
	case "create":
		return nil, client.Create(c[1], int(number(2)))
	case "write":
		records, err := load(c[3])
		if err != nil {
			return nil, err
		}
		return client.Write(c[1], c[2], records)
	case "read":
		wanted := map[int32]Range{}
		for _, part := range c[3:] {
			var partition int32
			var r Range
			if _, err := fmt.Sscanf(part, "%d:%d:%d", &partition, &r.First, &r.End); err != nil {
				return nil, err
			}
			if r.First < r.End {
				wanted[partition] = r
			}
		}
		records, err := client.Read(c[1], wanted)
		if err != nil {
			return nil, err
		}
		return nil, save(c[2], records)
	case "offset-for":
		return one(client.OffsetFor(c[1], int32(number(2)), number(3)))
	case "bounds":
		first, end, err := client.Bounds(c[1], int32(number(2)))
		return one(fmt.Sprintf("%d %d", first, end), err)
	case "out-of-range":
		return one(client.OutOfRange(c[1], int32(number(2)), number(3), c[4]))
	case "transactional":
		return one(client.Transactional(int(number(1))))
	}
	return nil, fmt.Errorf("no command %s", c[0])
}

func version(module string) (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("the program has no build information")
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return strings.TrimPrefix(m.Version, "v"), nil
		}
	}
	return "", fmt.Errorf("%s is not in the program", module)
}

func load(path string) ([]Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var records []Record
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		f := strings.Split(line, " ")
		r := Record{Key: unhex(f[3]), Value: unhex(f[4])}
		if _, err := fmt.Sscan(f[0], &r.Partition); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscan(f[1], &r.Offset); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscan(f[2], &r.Timestamp); err != nil {
			return nil, err
		}
		if f[5] != "-" {
			for _, h := range strings.Split(f[5], ",") {
				name, value, _ := strings.Cut(h, "=")
				r.Headers = append(r.Headers, Header{string(unhex(name)), unhex(value)})
			}
		}
		records = append(records, r)
	}
	return records, nil
}

func save(path string, records []Record) error {
	var out strings.Builder
	for _, r := range records {
		headers := make([]string, 0, len(r.Headers))
		for _, h := range r.Headers {
			headers = append(headers, tohex([]byte(h.Name))+"="+tohex(h.Value))
		}
		joined := strings.Join(headers, ",")
		if joined == "" {
			joined = "-"
		}
		fmt.Fprintf(&out, "%d %d %d %s %s %s\n", r.Partition, r.Offset, r.Timestamp, tohex(r.Key), tohex(r.Value), joined)
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}

// unhex gives nil for null, and never nil for empty.
func unhex(text string) []byte {
	if text == "~" {
		return nil
	}
	data, err := hex.DecodeString(text[1:])
	if err != nil {
		panic(err)
	}
	return append([]byte{}, data...)
}

func tohex(data []byte) string {
	if data == nil {
		return "~"
	}
	return "x" + hex.EncodeToString(data)
}
