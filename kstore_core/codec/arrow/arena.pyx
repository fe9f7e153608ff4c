# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
"""Allocate the buffers of Arrow columns: one by one, or together for all columns of a table."""

cimport cython

cdef extern from *:
    """
    #include <stdlib.h>
    #include <stdint.h>

    #if defined(__linux__)
    #include <sys/mman.h>
    #endif

    #if defined(__linux__) && defined(MADV_HUGEPAGE)
    #define KSTORE_LARGE_PAGES 1
    #else
    #define KSTORE_LARGE_PAGES 0
    #endif

    #define KSTORE_PAGE ((size_t)2 << 20)
    #define KSTORE_LARGEST ((size_t)32 << 20)
    #define KSTORE_HEAD ((size_t)64)

    /* The owners of a block are its buffers and the open scope. The last owner frees the block. */
    typedef struct {
        void *base;
        size_t size, used, end;
        long owners;
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

    /* Return a block that has room for `size` bytes, or NULL if it cannot be allocated. */
    static kstore_block *kstore_room(kstore_scope *scope, size_t size) {
        kstore_block *block = scope->block;
        uintptr_t first;
        void *base;
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
        madvise((void *)first, scope->next, MADV_HUGEPAGE);     /* only a hint, which may fail */
        kstore_disown(block);
        block = (kstore_block *)first;
        block->base = base;
        block->size = scope->next + KSTORE_PAGE;
        block->used = KSTORE_HEAD;
        block->end = scope->next;
        block->owners = 1;
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
            kstore_disown(kstore_current->block);
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
