/* Counts the system calls that change a folder, and fails one of them or ends the process before it (LD_PRELOAD). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static volatile int at = -1, count = 0, action = 0;
static char folder[4096];

/* Act at call number `n` below `below`: an error number above 0 fails it, a signal below 0 is sent before it. */
void faults_set(int n, int act, const char *below) {
    at = n;
    action = act;
    count = 0;
    strncpy(folder, below, sizeof folder - 1);
}

int faults_count(void) { return count; }

static int strikes(void) {
    int number = __sync_add_and_fetch(&count, 1);
    if (at < 0 || number != at || !action) return 0;
    if (action < 0) {
        kill(getpid(), -action);
        return 0;
    }
    errno = action;
    return 1;
}

static int is_below(const char *path) { return folder[0] && path && strstr(path, folder) != NULL; }

static int is_ours(int file) {
    char link[64], path[4096];
    if (!folder[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return !strncmp(path, folder, strlen(folder));
}

static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); }

#define REAL(name, result, arguments) \
    static result(*real) arguments; \
    if (!real) real = (result(*) arguments)dlsym(RTLD_NEXT, name)

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, int); \
        va_end(rest); \
    }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(#name, int, (const char *, int, ...)); \
        MODE if (is_below(path) && writes(flags) && strikes()) return -1; \
        return real(path, flags, mode); \
    }
#define OPENAT(name) \
    int name(int at_, const char *path, int flags, ...) { \
        REAL(#name, int, (int, const char *, int, ...)); \
        MODE if (is_below(path) && writes(flags) && strikes()) return -1; \
        return real(at_, path, flags, mode); \
    }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)

#define ON_FILE(name, result, parameters, arguments) \
    result name parameters { \
        REAL(#name, result, parameters); \
        if (is_ours(file) && strikes()) return -1; \
        return real arguments; \
    }
ON_FILE(write, ssize_t, (int file, const void *data, size_t size), (file, data, size))
ON_FILE(pwrite64, ssize_t, (int file, const void *data, size_t size, off_t to), (file, data, size, to))
ON_FILE(writev, ssize_t, (int file, const struct iovec *data, int size), (file, data, size))
ON_FILE(ftruncate64, int, (int file, off_t size), (file, size))
ON_FILE(fsync, int, (int file), (file))

#define ON_PATH(name, parameters, arguments, path) \
    int name parameters { \
        REAL(#name, int, parameters); \
        if (is_below(path) && strikes()) return -1; \
        return real arguments; \
    }
ON_PATH(rename, (const char *from, const char *to), (from, to), to)
ON_PATH(chmod, (const char *path, mode_t mode), (path, mode), path)
ON_PATH(fchmodat, (int at_, const char *path, mode_t mode, int flags), (at_, path, mode, flags), path)
ON_PATH(mkdir, (const char *path, mode_t mode), (path, mode), path)
ON_PATH(rmdir, (const char *path), (path), path)
ON_PATH(unlink, (const char *path), (path), path)

int unlinkat(int at_, const char *path, int flags) {
    REAL("unlinkat", int, (int, const char *, int));
    if ((is_below(path) || is_ours(at_)) && strikes()) return -1;
    return real(at_, path, flags);
}

int close(int file) {
    REAL("close", int, (int));
    if (!is_ours(file)) return real(file);
    int flags = fcntl(file, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || !strikes()) return real(file);
    int reason = errno; /* as the system does it: closed, and told of what could not be written */
    real(file);
    errno = reason;
    return -1;
}
