#include "wobble.h"

#include <mneme/MnemeAnnotation.hpp>

int main() {
    constexpr int n = 1000;
    auto *values = static_cast<double *>(wobble_allocate(n * sizeof(double)));
    auto *ticks = static_cast<unsigned long long *>(wobble_allocate(n * sizeof(unsigned long long)));
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
    }
    return wobble_run(values, ticks, n);
}
