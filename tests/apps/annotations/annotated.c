#include "wobble.h"

#include <mneme.h>

int main(void) {
    enum { n = 1000 };
    double *values = wobble_allocate(n * sizeof(double));
    unsigned long long *ticks = wobble_allocate(n * sizeof(unsigned long long));
    if (!wobble_is_silent()) {
        struct mneme_annotation annotation = {.dtype = MNEME_F64, .threshold_kind = MNEME_RELATIVE, .threshold = 1e-8, .tag = "values"};
        struct mneme_annotation ignored = {.dtype = MNEME_U64, .ignore = 1, .tag = "ticks"};
        if (mneme_annotate(values, &annotation) || mneme_annotate(ticks, &ignored))
            return 1;
    }
    return wobble_run(values, ticks, n);
}
