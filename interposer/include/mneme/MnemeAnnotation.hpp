// MnemeAnnotation.hpp: mneme.h for C++17, in the spelling of the existing Mneme.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "../mneme.h"

namespace mneme {

enum class BuiltinDType : std::uint8_t { U8 = 0, I8, U16, I16, U32, I32, U64, I64, F16, F32, F64 };
enum class ThresholdKind : std::uint8_t { Absolute = 0, Relative, Ulp };
enum class Norm : std::uint8_t { None = 0, L1, L2, Linf };

struct Metadata {
    BuiltinDType builtin = BuiltinDType::U8;
    double threshold = 0.0;
    ThresholdKind threshold_kind = ThresholdKind::Absolute;
    Norm norm = Norm::None;
    std::optional<std::string> tag = std::nullopt;
    bool ignore = false;
};

namespace detail {
inline mneme_annotation annotation_of(const Metadata &metadata) {
    mneme_annotation annotation{};
    annotation.dtype = static_cast<std::uint32_t>(metadata.builtin);
    annotation.threshold_kind = static_cast<std::uint32_t>(metadata.threshold_kind);
    annotation.norm = static_cast<std::uint32_t>(metadata.norm);
    annotation.ignore = metadata.ignore ? 1 : 0;
    annotation.threshold = metadata.threshold;
    annotation.tag = metadata.tag ? metadata.tag->c_str() : nullptr;
    return annotation;
}

template <class T> constexpr BuiltinDType dtype_of() {
    if constexpr (std::is_floating_point_v<T>) {
        return sizeof(T) == 8 ? BuiltinDType::F64 : sizeof(T) == 4 ? BuiltinDType::F32 : BuiltinDType::U8;
    } else if constexpr (std::is_integral_v<T>) {
        constexpr unsigned step = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6;
        return static_cast<BuiltinDType>(step + (std::is_signed_v<T> ? 1 : 0));
    } else {
        return BuiltinDType::U8;
    }
}
} // namespace detail

inline void annotate(const void *pointer, const Metadata &metadata) {
    const mneme_annotation annotation = detail::annotation_of(metadata);
    mneme_annotate(pointer, &annotation);
}

// A part of an allocation, such as a field in a pool.
inline void annotate(const void *pointer, std::size_t bytes, const Metadata &metadata) {
    const mneme_annotation annotation = detail::annotation_of(metadata);
    mneme_annotate_range(pointer, bytes, &annotation);
}

// Takes the element type from the pointer.
template <class T, std::enable_if_t<!std::is_void_v<std::remove_cv_t<T>>, int> = 0>
inline void annotate(T *pointer, Metadata metadata = {}) {
    metadata.builtin = detail::dtype_of<std::remove_cv_t<T>>();
    annotate(static_cast<const void *>(pointer), metadata);
}

template <class T, std::enable_if_t<!std::is_void_v<std::remove_cv_t<T>>, int> = 0>
inline void annotate(T *pointer, std::size_t bytes, Metadata metadata) {
    metadata.builtin = detail::dtype_of<std::remove_cv_t<T>>();
    annotate(static_cast<const void *>(pointer), bytes, metadata);
}

} // namespace mneme
