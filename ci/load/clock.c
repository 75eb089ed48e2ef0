/* Between the broker and libc: CLOCK_REALTIME plus the seconds that the file named by CLOCK_OFFSET holds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void start(void) {
  const char *path = getenv("CLOCK_OFFSET");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *seen = fd >= 0 ? mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (fd >= 0) close(fd);
  if (seen != MAP_FAILED) offset = seen;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
  int code = syscall(SYS_clock_gettime, clock, out);
  if (code == 0 && clock == CLOCK_REALTIME && offset) out->tv_sec += *offset;
  return code;
}
