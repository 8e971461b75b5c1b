/* A disk that fails at a chosen call: preloaded, it stands before the C library.
 *
 * Counted are calls that put something below one folder: creating, linking and renaming files,
 * making folders, writing, truncating, flushing. Removing succeeds, as it does on a full disk.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX];
static atomic_long calls;
static long failing;
static int number, stays, armed;

/* From the call `call` on, counted from 1, calls fail with `code`: all, or only that one. */
void disk_arm(const char *below, long call, int code, int all)
{
    snprintf(folder, sizeof folder, "%s", below);
    atomic_store(&calls, 0);
    failing = call;
    number = code;
    stays = all;
    armed = 1;
}

/* Lets all calls succeed again, and says how many were counted. */
long disk_disarm(void)
{
    armed = 0;
    return atomic_load(&calls);
}

static int fails(const char *path)
{
    size_t length = strlen(folder);
    if (!armed || strncmp(path, folder, length) != 0)
        return 0;
    long call = atomic_fetch_add(&calls, 1) + 1;
    if (stays ? call < failing : call != failing)
        return 0;
    errno = number;
    return 1;
}

static int fails_at(int descriptor)
{
    char link[64], path[PATH_MAX];
    if (!armed)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0)
        return 0;
    path[size] = 0;
    return fails(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define BY_DESCRIPTOR(type, name, parameters, descriptor, ...) \
    type name parameters { return fails_at(descriptor) ? -1 : REAL(name)(__VA_ARGS__); }

#define BY_PATH(name, parameters, path, ...) \
    int name parameters { return fails(path) ? -1 : REAL(name)(__VA_ARGS__); }

BY_DESCRIPTOR(ssize_t, write, (int fd, const void *data, size_t n), fd, fd, data, n)
BY_DESCRIPTOR(ssize_t, pwrite, (int fd, const void *d, size_t n, off_t at), fd, fd, d, n, at)
BY_DESCRIPTOR(ssize_t, pwrite64, (int fd, const void *d, size_t n, off64_t at), fd, fd, d, n, at)
BY_DESCRIPTOR(ssize_t, sendfile64, (int to, int fd, off64_t *at, size_t n), to, to, fd, at, n)
BY_DESCRIPTOR(int, ftruncate, (int fd, off_t size), fd, fd, size)
BY_DESCRIPTOR(int, ftruncate64, (int fd, off64_t size), fd, fd, size)
BY_DESCRIPTOR(int, fsync, (int fd), fd, fd)
BY_DESCRIPTOR(int, fdatasync, (int fd), fd, fd)
BY_PATH(mkdir, (const char *path, mode_t mode), path, path, mode)
BY_PATH(link, (const char *from, const char *to), to, from, to)
BY_PATH(rename, (const char *from, const char *to), to, from, to)

#define OPENING(name)                                              \
    int name(const char *path, int flags, ...)                     \
    {                                                              \
        va_list rest;                                              \
        va_start(rest, flags);                                     \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;  \
        va_end(rest);                                              \
        if ((flags & O_CREAT) && fails(path))                      \
            return -1;                                             \
        return REAL(name)(path, flags, mode);                      \
    }

OPENING(open)
OPENING(open64)
