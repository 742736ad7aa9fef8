/* A kernel whose results differ from run to run, for programs that say so in their own language. */
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
/* Device memory, or NULL. */
void *wobble_allocate(size_t bytes);
/* Fills n values and n ticks; 0 where the values are what they should be. */
int wobble_run(double *values, unsigned long long *ticks, int n);
/* The same in a pool: n values, n ticks, and n numbers (32 bits each) that do not vary. */
int wobble_run_pool(void *pool, int n);
/* Whether the program is to say nothing. */
int wobble_is_silent(void);
#ifdef __cplusplus
}
#endif
