#include "wobble.h"

#include <mneme.h>

int main(void) {
    enum { n = 1000 };
    double *values = wobble_allocate(n * sizeof(double));
    unsigned long long *ticks = wobble_allocate(n * sizeof(unsigned long long));
    char *pool = wobble_allocate(20 * n);
    if (!wobble_is_silent()) {
        struct mneme_annotation annotation = {.dtype = MNEME_F64, .threshold_kind = MNEME_RELATIVE, .threshold = 1e-8, .tag = "values"};
        struct mneme_annotation ignored = {.dtype = MNEME_U64, .ignore = 1, .tag = "ticks"};
        struct mneme_annotation exact = {.dtype = MNEME_U32, .tag = "numbers"};
        if (mneme_annotate(values, &annotation) || mneme_annotate(ticks, &ignored))
            return 1;
        if (mneme_annotate_range(pool, 8 * n, &annotation) || mneme_annotate_range(pool + 8 * n, 8 * n, &ignored) ||
            mneme_annotate_range(pool + 16 * n, 4 * n, &exact))
            return 1;
        /* The recorder refuses these: one leaves the pool, one splits an element. */
        mneme_annotate_range(pool + 16 * n, 1 << 30, &ignored);
        mneme_annotate_range(pool + 16 * n, 7, &exact);
    }
    return wobble_run(values, ticks, n) || wobble_run_pool(pool, n);
}
