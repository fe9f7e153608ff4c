# cython: language_level=3
"""Run the two halves of a task at the same time."""

cdef enum:
    MANY = 65536    # rows or records that two threads process in less time than one

ctypedef void (*Half)(void *) noexcept nogil

cdef extern from *:
    """
    #if !defined(_WIN32)
    #include <pthread.h>
    #include <signal.h>
    #endif

    typedef struct {
        void (*run)(void *);
        void *half;
    } kstore_second;

    static void *kstore_run_second(void *argument) {
        kstore_second *second = (kstore_second *)argument;
        second->run(second->half);
        return NULL;
    }

    /* Run both halves, the second one in another thread, and return after both have ended. If the
       thread cannot start, the calling thread runs both. The second half may be NULL. */
    static void kstore_run_halves(void (*run)(void *), void *first, void *second) {
        int started = 0;
    #if !defined(_WIN32)
        kstore_second other = {run, second};
        pthread_t thread;
        sigset_t all, before;
        if (second != NULL) {
            sigfillset(&all);       /* Signals are for the threads of Python. */
            pthread_sigmask(SIG_SETMASK, &all, &before);
            started = pthread_create(&thread, NULL, kstore_run_second, &other) == 0;
            pthread_sigmask(SIG_SETMASK, &before, NULL);
        }
    #endif
        run(first);
    #if !defined(_WIN32)
        if (started)
            pthread_join(thread, NULL);
    #endif
        if (second != NULL && !started)
            run(second);
    }
    """
    void run_halves "kstore_run_halves"(Half run, void *first, void *second) nogil
