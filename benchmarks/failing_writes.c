// Lets the n-th write below a folder fail, in a program that was started with LD_PRELOAD.
//
//   fail_at(folder, n, error, always, removals)   the n-th call from now on fails with errno `error`; those after it too,
//                                                 if `always` (a full disk stays full, a bad sector is met once)
//   failed()                                      how many calls have failed since
//
// Calls that count: those that make, extend, fill, sync or rename a file or a folder; or, with `removals`, those that
// remove one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static size_t length;
static int countdown, error_number, stays, of_removals, count;

void fail_at(const char *where, int n, int error, int always, int removals) {
  length = 0;
  if (where == NULL || realpath(where, folder) == NULL) return;
  countdown = n, error_number = error, stays = always, of_removals = removals;
  __atomic_store_n(&count, 0, __ATOMIC_SEQ_CST);
  length = strlen(folder);
}

int failed(void) { return __atomic_load_n(&count, __ATOMIC_SEQ_CST); }

static int fails(int removal) {
  if (removal != of_removals) return 0;
  const int left = __atomic_sub_fetch(&countdown, 1, __ATOMIC_SEQ_CST);
  if (left > 0 || (left < 0 && !stays)) return 0;
  __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
  errno = error_number;
  return 1;
}

static int below(const char *path) { return strncmp(path, folder, length) == 0 && path[length] == '/'; }

// What is done to a file or a folder that is open.
static int call_fails(int descriptor, int removal) {
  char link[64], path[PATH_MAX];
  const int before = errno;
  if (length == 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  errno = before;
  if (n <= 0) return 0;
  path[n] = 0;
  return (below(path) || strcmp(path, folder) == 0) && fails(removal);
}

static int open_fails(int descriptor) { return call_fails(descriptor, 0); }

// The folder of a name, as the name itself may not be there yet.
static int name_fails(const char *path, int removal) {
  char copy[PATH_MAX], real[PATH_MAX];
  const int before = errno;
  if (length == 0 || path == NULL || strlen(path) >= sizeof copy) return 0;
  strcpy(copy, path);
  char *const slash = strrchr(copy, '/');
  if (slash != NULL) *(slash == copy ? slash + 1 : slash) = 0;
  const char *const found = realpath(slash == NULL ? "." : copy, real);
  errno = before;
  return found != NULL && (below(real) || strcmp(real, folder) == 0) && fails(removal);
}

static int path_fails(const char *path) { return name_fails(path, 0); }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int d, const void *data, size_t n) { return open_fails(d) ? -1 : REAL(write)(d, data, n); }
ssize_t pwrite(int d, const void *data, size_t n, off_t at) { return open_fails(d) ? -1 : REAL(pwrite)(d, data, n, at); }
ssize_t pwrite64(int d, const void *data, size_t n, off64_t at) {
  return open_fails(d) ? -1 : REAL(pwrite64)(d, data, n, at);
}
ssize_t writev(int d, const struct iovec *parts, int n) { return open_fails(d) ? -1 : REAL(writev)(d, parts, n); }
int fsync(int d) { return open_fails(d) ? -1 : REAL(fsync)(d); }
int fdatasync(int d) { return open_fails(d) ? -1 : REAL(fdatasync)(d); }
int ftruncate(int d, off_t size) { return open_fails(d) ? -1 : REAL(ftruncate)(d, size); }
int ftruncate64(int d, off64_t size) { return open_fails(d) ? -1 : REAL(ftruncate64)(d, size); }
int posix_fallocate(int d, off_t at, off_t n) { return open_fails(d) ? errno : REAL(posix_fallocate)(d, at, n); }
int posix_fallocate64(int d, off64_t at, off64_t n) { return open_fails(d) ? errno : REAL(posix_fallocate64)(d, at, n); }
int rename(const char *from, const char *to) { return path_fails(to) ? -1 : REAL(rename)(from, to); }
int renameat(int d, const char *from, int e, const char *to) {
  return path_fails(to) ? -1 : REAL(renameat)(d, from, e, to);
}
int mkdir(const char *path, mode_t mode) { return path_fails(path) ? -1 : REAL(mkdir)(path, mode); }
int unlink(const char *path) { return name_fails(path, 1) ? -1 : REAL(unlink)(path); }
int rmdir(const char *path) { return name_fails(path, 1) ? -1 : REAL(rmdir)(path); }
int unlinkat(int d, const char *path, int flags) {
  const int relative = d != AT_FDCWD && path != NULL && path[0] != '/';
  return (relative ? call_fails(d, 1) : name_fails(path, 1)) ? -1 : REAL(unlinkat)(d, path, flags);
}

static int shared_and_written(int protection, int flags, int d) {
  return d >= 0 && (protection & PROT_WRITE) && (flags & MAP_SHARED);
}
void *mmap(void *at, size_t n, int protection, int flags, int d, off_t offset) {
  if (shared_and_written(protection, flags, d) && open_fails(d)) return MAP_FAILED;
  return REAL(mmap)(at, n, protection, flags, d, offset);
}
void *mmap64(void *at, size_t n, int protection, int flags, int d, off64_t offset) {
  if (shared_and_written(protection, flags, d) && open_fails(d)) return MAP_FAILED;
  return REAL(mmap64)(at, n, protection, flags, d, offset);
}

#define MODE                                                                                                           \
  mode_t mode = 0;                                                                                                     \
  if (flags & (O_CREAT | O_TMPFILE)) {                                                                                 \
    va_list rest;                                                                                                      \
    va_start(rest, flags);                                                                                             \
    mode = va_arg(rest, mode_t);                                                                                       \
    va_end(rest);                                                                                                      \
  }
int open(const char *path, int flags, ...) {
  MODE return (flags & O_CREAT) && path_fails(path) ? -1 : REAL(open)(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  MODE return (flags & O_CREAT) && path_fails(path) ? -1 : REAL(open64)(path, flags, mode);
}
int openat(int d, const char *path, int flags, ...) {
  MODE return (flags & O_CREAT) && path_fails(path) ? -1 : REAL(openat)(d, path, flags, mode);
}
int openat64(int d, const char *path, int flags, ...) {
  MODE return (flags & O_CREAT) && path_fails(path) ? -1 : REAL(openat64)(d, path, flags, mode);
}
