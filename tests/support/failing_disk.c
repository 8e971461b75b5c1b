/* A machine with faults: preloaded, this library stands before the C library.
 *
 * One process can arm it, so that the disk fails at a chosen call. Counted are calls that put
 * something below one folder: creating, linking and renaming files, making folders, writing,
 * truncating, flushing. Removing succeeds, as it does on a full disk.
 *
 * A tree of processes obeys the file that MACHINE_FAULTS names, for calls below MACHINE_FOLDER:
 * they are late, or fail, as long as the file says so; and the time of day is off.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static char folder[PATH_MAX];
static atomic_long calls;
static long failing;
static int number, stays, armed;

/* The content of the file: seconds by which the clock is ahead, mean delay, errno or 0. */
struct faults { int64_t clock_s, delay_us, error; };
static const volatile struct faults *machine;

__attribute__((constructor)) static void obey_file(void)
{
    const char *path = getenv("MACHINE_FAULTS"), *below = getenv("MACHINE_FOLDER");
    int descriptor = path && below ? open(path, O_RDONLY) : -1;
    if (descriptor < 0)
        return;
    void *shared = mmap(NULL, sizeof *machine, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (shared == MAP_FAILED)
        abort();
    snprintf(folder, sizeof folder, "%s", below);
    machine = shared;
}

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

static int is_below(const char *path)
{
    return (armed || machine) && strncmp(path, folder, strlen(folder)) == 0;
}

/* Waits between 0 and twice the mean delay. */
static void dawdle(void)
{
    static _Thread_local unsigned seed;
    if (machine->delay_us <= 0)
        return;
    if (!seed)
        seed = (unsigned)getpid() ^ (unsigned)(uintptr_t)&seed;
    usleep((useconds_t)(rand_r(&seed) % (2 * machine->delay_us)));
}

static int fails(const char *path)
{
    if (!is_below(path))
        return 0;
    if (machine) {
        dawdle();
        if (machine->error) {
            errno = (int)machine->error;
            return 1;
        }
    }
    if (!armed)
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
    if (!armed && !machine)
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
        if (!(flags & O_CREAT) && machine && is_below(path))       \
            dawdle();                                              \
        return REAL(name)(path, flags, mode);                      \
    }

OPENING(open)
OPENING(open64)

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = REAL(clock_gettime)(clock, now);
    if (machine && clock == CLOCK_REALTIME)
        now->tv_sec += machine->clock_s;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int failed = REAL(gettimeofday)(now, zone);
    if (machine)
        now->tv_sec += machine->clock_s;
    return failed;
}

time_t time(time_t *now)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
