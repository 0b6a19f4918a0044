/* Products of few rows with 8-bit weights: every weight is read once, in order, and multiplied as an integer. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LARGEST_WEIGHT 127.0f
#define AHEAD 2048 /* bytes of weights asked for before they are due: the best of 0, 2048, 4096 and 8192 on a Xeon */
#define LINE 64    /* bytes that memory gives at once */

static float from_bfloat16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The largest magnitude. As integers the bits of magnitudes have their order, with NaN above infinity: it is kept. */
static float largest_magnitude(const float *x, int64_t inputs) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < inputs; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    float value;
    memcpy(&value, &largest, sizeof value);
    return value;
}

/* Rows rounded to 16 bits, and the unit of each: the smallest with which no sum of `inputs` products leaves 32 bits. */
static void rounded(const float *x, int64_t rows, int64_t inputs, int16_t *q, float *unit) {
    const float bound = floorf(fminf(32767.0f, 2147483000.0f / (LARGEST_WEIGHT * (float)inputs)));
    for (int64_t r = 0; r < rows; r++) {
        const float largest = largest_magnitude(x + r * inputs, inputs);
        const float inverse = largest > 0.0f ? bound / largest : 0.0f;
        unit[r] = largest / bound;
        for (int64_t i = 0; i < inputs; i++)
            q[r * inputs + i] = (int16_t)(int32_t)rintf(x[r * inputs + i] * inverse);
    }
}

/* y = scale * (w . x), rows x outputs, of few rows: they lie on the stack.
   Every thread rounds x for itself, which is quicker than to have it sent. */
void int8_product(const int8_t *restrict w, const uint16_t *restrict scale, const float *restrict x,
                  float *restrict y, int64_t rows, int64_t outputs, int64_t inputs, int threads) {
#pragma omp parallel num_threads(threads)
    {
        int16_t q[rows * inputs];
        float unit[rows];
        rounded(x, rows, inputs, q, unit);
#pragma omp for schedule(static) nowait
        for (int64_t o = 0; o < outputs; o++) {
            const int8_t *w_o = w + o * inputs;
            const float s = from_bfloat16(scale[o]);
            for (int64_t i = 0; i < inputs; i += LINE)
                __builtin_prefetch(w_o + AHEAD + i);
            for (int64_t r = 0; r < rows; r++) {
                const int16_t *q_r = q + r * inputs;
                int32_t sum = 0;
                for (int64_t i = 0; i < inputs; i++)
                    sum += (int32_t)q_r[i] * (int32_t)w_o[i];
                y[r * outputs + o] = (float)sum * (s * unit[r]);
            }
        }
    }
}
