#include "wobble.h"

#include <mneme/MnemeAnnotation.hpp>

int main() {
    constexpr int n = 1000;
    auto *values = static_cast<double *>(wobble_allocate(n * sizeof(double)));
    auto *ticks = static_cast<unsigned long long *>(wobble_allocate(n * sizeof(unsigned long long)));
    auto *pool = static_cast<char *>(wobble_allocate(20 * n));
    if (!wobble_is_silent()) {
        mneme::Metadata metadata;
        metadata.threshold = 1e-8;
        metadata.threshold_kind = mneme::ThresholdKind::Relative;
        metadata.tag = "values";
        mneme::annotate<double>(values, metadata);
        mneme::Metadata ignored{mneme::BuiltinDType::U64};
        ignored.ignore = true;
        ignored.tag = "ticks";
        mneme::annotate(static_cast<const void *>(ticks), ignored);
        mneme::annotate(reinterpret_cast<double *>(pool), 8 * n, metadata);
        mneme::annotate(static_cast<const void *>(pool + 8 * n), 8 * n, ignored);
        mneme::Metadata exact;
        exact.tag = "numbers";
        mneme::annotate(reinterpret_cast<unsigned *>(pool + 16 * n), 4 * n, exact);
    }
    return wobble_run(values, ticks, n) || wobble_run_pool(pool, n);
}
