/* mneme.h: names and tolerances for buffers of device memory, and for parts of them.
 *
 * A program that includes this links and runs without Mneme. Under the recorder, the annotations of a buffer go into the
 * recordings of later launches, and `mneme-replay` uses them. For C99 and C++; it needs no library.
 */
#ifndef MNEME_H
#define MNEME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The element type of a buffer. */
enum mneme_dtype {
    MNEME_U8 = 0,
    MNEME_I8 = 1,
    MNEME_U16 = 2,
    MNEME_I16 = 3,
    MNEME_U32 = 4,
    MNEME_I32 = 5,
    MNEME_U64 = 6,
    MNEME_I64 = 7,
    MNEME_F16 = 8,
    MNEME_F32 = 9,
    MNEME_F64 = 10
};

/* The error that the threshold limits, for a replayed r and a recorded e. */
enum mneme_threshold {
    MNEME_ABSOLUTE = 0, /* |r - e| */
    MNEME_RELATIVE = 1, /* |r - e| / max(|e|, 1e-12) */
    MNEME_ULP = 2       /* representable values from e to r */
};

/* Whether each element must pass, or a norm of all errors. */
enum mneme_norm { MNEME_NORM_NONE = 0, MNEME_NORM_L1 = 1, MNEME_NORM_L2 = 2, MNEME_NORM_LINF = 3 };

/* An annotation of all zeros compares bytes. */
struct mneme_annotation {
    uint32_t dtype;          /* enum mneme_dtype */
    uint32_t threshold_kind; /* enum mneme_threshold */
    uint32_t norm;           /* enum mneme_norm */
    uint32_t ignore;         /* not 0: the buffer is not compared */
    double threshold;        /* the largest error that passes */
    const char *tag;         /* a name for messages, or NULL; copied */
};

/* The recorder's functions. */
extern int mneme_rec_annotate(const void *pointer, const struct mneme_annotation *annotation) __attribute__((weak));
extern int mneme_rec_annotate_range(const void *pointer, size_t bytes, const struct mneme_annotation *annotation)
    __attribute__((weak));

/* Annotates the allocation that a device pointer points into, until it is freed or annotated again. NULL removes the
 * annotation. Returns 0 if it was accepted or the program is not recorded, 1 if a value is invalid. */
static inline int mneme_annotate(const void *pointer, const struct mneme_annotation *annotation) {
    return mneme_rec_annotate ? mneme_rec_annotate(pointer, annotation) : 0;
}

/* Annotates the bytes from a device pointer on, such as a field in a pool, until their allocation is freed or they are
 * annotated again. NULL removes their annotations. They override that of the allocation. Returns 1 if a value is
 * invalid, the bytes leave the allocated memory, or they split an element; the recorder says so on standard error. */
static inline int mneme_annotate_range(const void *pointer, size_t bytes, const struct mneme_annotation *annotation) {
    return mneme_rec_annotate_range ? mneme_rec_annotate_range(pointer, bytes, annotation) : 0;
}

#ifdef __cplusplus
}
#endif
#endif
