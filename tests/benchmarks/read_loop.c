/* Reads every byte of a memory area once, each thread a slice of its own, xor-ing as many lanes as the compiler's
   vectors have: what the memory gives when nothing but reading is asked of it. */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_THREADS 256
#define UNROLLED 32

struct slice {
    const uint64_t *start;
    size_t words;
    uint64_t found;
};

static void *read_slice(void *given)
{
    struct slice *slice = given;
    uint64_t lanes[UNROLLED] = {0};
    size_t whole = slice->words / UNROLLED * UNROLLED;
    for (size_t i = 0; i < whole; i += UNROLLED)
        for (size_t lane = 0; lane < UNROLLED; lane++)
            lanes[lane] ^= slice->start[i + lane];
    uint64_t found = 0;
    for (size_t i = whole; i < slice->words; i++)
        found ^= slice->start[i];
    for (size_t lane = 0; lane < UNROLLED; lane++)
        found ^= lanes[lane];
    slice->found = found;
    return NULL;
}

uint64_t read_all(const uint64_t *start, size_t words, int threads)
{
    pthread_t begun[MOST_THREADS];
    struct slice slices[MOST_THREADS];
    size_t each = words / threads;
    uint64_t found = 0;
    for (int t = 0; t < threads; t++) {
        slices[t].start = start + t * each;
        slices[t].words = t == threads - 1 ? words - t * each : each;
        if (t > 0)
            pthread_create(&begun[t], NULL, read_slice, &slices[t]);
    }
    read_slice(&slices[0]);
    found = slices[0].found;
    for (int t = 1; t < threads; t++) {
        pthread_join(begun[t], NULL);
        found ^= slices[t].found;
    }
    return found;
}
