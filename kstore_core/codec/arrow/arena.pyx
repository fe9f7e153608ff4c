# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
"""Allocate the buffers of Arrow columns: one by one, or together for all columns of a table."""

cimport cython

cdef extern from *:
    """
    #include <stdlib.h>
    #include <stdint.h>

    #if defined(__linux__)
    #include <pthread.h>
    #include <signal.h>
    #include <sys/mman.h>
    #include <time.h>
    #endif

    #if defined(__linux__) && defined(MADV_HUGEPAGE)
    #define KSTORE_LARGE_PAGES 1
    #else
    #define KSTORE_LARGE_PAGES 0
    #endif

    #ifndef MADV_POPULATE_WRITE
    #define MADV_POPULATE_WRITE 23          /* since Linux 5.14 */
    #endif

    #define KSTORE_PAGE ((size_t)2 << 20)
    #define KSTORE_LARGEST ((size_t)32 << 20)
    #define KSTORE_HEAD ((size_t)64)
    #define KSTORE_STEP ((size_t)256 << 10)
    #define KSTORE_STACK ((size_t)256 << 10)
    #define KSTORE_SLOW_NS 1500000          /* for a large page; usually 200,000 */

    /* The owners of a block are its buffers, the open scope, and the thread that requests its pages.
       The last owner frees the block. After a fork, the thread still counts as an owner. */
    typedef struct {
        void *base;
        size_t size, used, end;
        long owners;
        int complete;               /* no buffer will be added, so no more pages are needed */
        int small;                  /* use small pages, because a large page was slow */
    } kstore_block;

    typedef struct kstore_scope {
        kstore_block *block;
        size_t plain, next;         /* bytes allocated before the first block; size of the next */
    } kstore_scope;

    #if KSTORE_LARGE_PAGES
    static _Thread_local kstore_scope *kstore_current = NULL;

    static void kstore_disown(kstore_block *block) {
        if (block != NULL && __atomic_sub_fetch(&block->owners, 1, __ATOMIC_ACQ_REL) == 0)
            munmap(block->base, block->size);
    }

    static long long kstore_cpu_ns(void) {
        struct timespec now = {0, 0};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return now.tv_sec * 1000000000LL + now.tv_nsec;
    }

    /* Request the pages of a block before its buffers need them. The host of a virtual machine takes
       back free large pages, and then provides them slowly. Free small pages often remain. */
    static void *kstore_request(void *argument) {
        kstore_block *block = (kstore_block *)argument;
        size_t at = 0;
        while (at < block->end && !__atomic_load_n(&block->complete, __ATOMIC_RELAXED)) {
            int small = __atomic_load_n(&block->small, __ATOMIC_RELAXED);
            long long begin = small ? 0 : kstore_cpu_ns();
            char *from = (char *)block + at;
            at += small ? KSTORE_STEP : KSTORE_PAGE;
            if (madvise(from, (char *)block + at - from, MADV_POPULATE_WRITE) != 0)
                break;
            if (!small && kstore_cpu_ns() - begin > KSTORE_SLOW_NS) {
                madvise((char *)block + at, block->end - at, MADV_NOHUGEPAGE);
                __atomic_store_n(&block->small, 1, __ATOMIC_RELAXED);
            }
        }
        kstore_disown(block);
        return NULL;
    }

    static void kstore_start(kstore_block *block) {
        pthread_t thread;
        pthread_attr_t attributes;
        sigset_t all, before;
        if (pthread_attr_init(&attributes) != 0)
            return;
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, KSTORE_STACK);
        sigfillset(&all);           /* Signals are for the threads of Python. */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        __atomic_add_fetch(&block->owners, 1, __ATOMIC_RELAXED);
        if (pthread_create(&thread, &attributes, kstore_request, block) != 0)
            kstore_disown(block);   /* The pages come at page faults. */
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }

    /* Leave a block of the current scope, which adds no more buffers to it. Return its other pages. */
    static void kstore_complete(kstore_block *block) {
        size_t kept;
        if (block != NULL) {
            __atomic_store_n(&block->complete, 1, __ATOMIC_RELAXED);
            kept = (block->used + KSTORE_PAGE - 1) & ~(KSTORE_PAGE - 1);
            if (kept < block->end)
                madvise((char *)block + kept, block->end - kept, MADV_DONTNEED);
            kstore_disown(block);
        }
    }

    /* Return a block that has room for `size` bytes, or NULL if it cannot be allocated. */
    static kstore_block *kstore_room(kstore_scope *scope, size_t size) {
        kstore_block *block = scope->block;
        uintptr_t first;
        void *base;
        int small;
        if (block != NULL && block->end - block->used >= size)
            return block;
        if (size > KSTORE_LARGEST / 2)
            return NULL;
        while (scope->next < size + KSTORE_HEAD)
            scope->next *= 2;
        base = mmap(NULL, scope->next + KSTORE_PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED)
            return NULL;
        first = ((uintptr_t)base + KSTORE_PAGE - 1) & ~(uintptr_t)(KSTORE_PAGE - 1);
        small = block != NULL && __atomic_load_n(&block->small, __ATOMIC_RELAXED);
        kstore_complete(block);
        /* only a hint, which may fail */
        madvise((void *)first, scope->next, small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
        block = (kstore_block *)first;
        block->base = base;
        block->size = scope->next + KSTORE_PAGE;
        block->used = KSTORE_HEAD;
        block->end = scope->next;
        block->owners = 1;
        block->complete = 0;
        block->small = small;
        kstore_start(block);
        scope->block = block;
        if (scope->next < KSTORE_LARGEST)
            scope->next *= 2;
        return block;
    }

    static void *kstore_enter(void) {
        kstore_scope *outer = kstore_current;
        kstore_scope *scope = (kstore_scope *)calloc(1, sizeof(kstore_scope));
        if (scope != NULL)
            scope->next = KSTORE_PAGE;
        kstore_current = scope;     /* NULL: each buffer is allocated alone */
        return outer;
    }

    static void kstore_leave(void *outer) {
        if (kstore_current != NULL) {
            kstore_complete(kstore_current->block);
            free(kstore_current);
        }
        kstore_current = (kstore_scope *)outer;
    }
    #else
    static void *kstore_enter(void) { return NULL; }
    static void kstore_leave(void *outer) { (void)outer; }
    #endif

    /* The head of a buffer points to the block of the buffer, or is NULL. */
    static void *kstore_new(size_t size) {
        char *head = NULL;
        kstore_block *block = NULL;
        if (size > SIZE_MAX - 2 * KSTORE_HEAD)
            return NULL;
        size = (size + 2 * KSTORE_HEAD - 1) & ~(KSTORE_HEAD - 1);
    #if KSTORE_LARGE_PAGES
        if (kstore_current != NULL) {
            if (kstore_current->plain < KSTORE_PAGE / 2)
                kstore_current->plain += size;      /* a small table gets no large page */
            else
                block = kstore_room(kstore_current, size);
        }
        if (block != NULL) {
            head = (char *)block + block->used;
            block->used += size;
            __atomic_add_fetch(&block->owners, 1, __ATOMIC_RELAXED);
        }
    #endif
        if (head == NULL)
            head = (char *)malloc(size);
        if (head == NULL)
            return NULL;
        *(kstore_block **)head = block;
        return head + KSTORE_HEAD;
    }

    static void kstore_free(void *buffer) {
        char *head;
        if (buffer == NULL)
            return;
        head = (char *)buffer - KSTORE_HEAD;
    #if KSTORE_LARGE_PAGES
        if (*(kstore_block **)head != NULL) {
            kstore_disown(*(kstore_block **)head);
            return;
        }
    #endif
        free(head);
    }
    """
    void *kstore_enter() noexcept nogil
    void kstore_leave(void *outer) noexcept nogil
    void *kstore_new(size_t size) noexcept nogil
    void kstore_free(void *buffer) noexcept nogil


cdef void *new_buffer(size_t size) noexcept nogil:
    return kstore_new(size)


cdef void free_buffer(void *buffer) noexcept nogil:
    kstore_free(buffer)


@cython.final
cdef class Arena:

    def __enter__(self):
        self.outer = kstore_enter()
        return self

    def __exit__(self, kind, error, trace):
        kstore_leave(self.outer)
