! mneme.f90: mneme.h for Fortran 2008. Compile it with the program; the program links and runs without Mneme.
module mneme
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: mneme_annotate

    ! The element type of a buffer.
    integer(c_int32_t), parameter, public :: mneme_u8 = 0, mneme_i8 = 1, mneme_u16 = 2, mneme_i16 = 3, &
        mneme_u32 = 4, mneme_i32 = 5, mneme_u64 = 6, mneme_i64 = 7, mneme_f16 = 8, mneme_f32 = 9, mneme_f64 = 10
    ! The error that the threshold limits, for a replayed r and a recorded e: |r - e|, |r - e| / max(|e|, 1e-12), or the
    ! number of representable values from e to r.
    integer(c_int32_t), parameter, public :: mneme_absolute = 0, mneme_relative = 1, mneme_ulp = 2
    ! Whether each element must pass, or a norm of all errors.
    integer(c_int32_t), parameter, public :: mneme_norm_none = 0, mneme_norm_l1 = 1, mneme_norm_l2 = 2, &
        mneme_norm_linf = 3

    ! struct mneme_annotation
    type, bind(c) :: annotation_t
        integer(c_int32_t) :: dtype, threshold_kind, norm, ignore
        real(c_double) :: threshold
        type(c_ptr) :: tag
    end type

    abstract interface
        function annotate_function(pointer, annotation) bind(c) result(status)
            import :: c_int, c_ptr, annotation_t
            type(c_ptr), value :: pointer
            type(annotation_t), intent(in) :: annotation
            integer(c_int) :: status
        end function
        function annotate_range_function(pointer, bytes, annotation) bind(c) result(status)
            import :: c_int, c_ptr, c_size_t, annotation_t
            type(c_ptr), value :: pointer
            integer(c_size_t), value :: bytes
            type(annotation_t), intent(in) :: annotation
            integer(c_int) :: status
        end function
    end interface

    interface
        ! Fortran has no weak symbols, so the recorder is searched among the loaded libraries.
        function dlsym(handle, name) bind(c) result(found)
            import :: c_char, c_funptr, c_ptr
            type(c_ptr), value :: handle
            character(kind=c_char), intent(in) :: name(*)
            type(c_funptr) :: found
        end function
    end interface

contains

    ! Annotates the allocation that a device pointer points into, or only that many bytes from there on, until it is
    ! freed or annotated again. The status is 0 if it was accepted or the program is not recorded, 1 if a value is
    ! invalid, the bytes leave the allocated memory, or they split an element.
    subroutine mneme_annotate(pointer, dtype, threshold, kind, norm, ignore, tag, status, bytes)
        type(c_ptr), intent(in) :: pointer
        integer(c_int32_t), intent(in) :: dtype
        real(c_double), intent(in), optional :: threshold
        integer(c_int32_t), intent(in), optional :: kind, norm
        logical, intent(in), optional :: ignore
        character(len=*), intent(in), optional :: tag
        integer(c_int), intent(out), optional :: status
        integer(c_size_t), intent(in), optional :: bytes
        procedure(annotate_function), pointer :: annotate
        procedure(annotate_range_function), pointer :: annotate_range
        type(c_funptr) :: found
        type(annotation_t) :: annotation
        character(kind=c_char, len=:), allocatable, target :: name
        integer(c_int) :: outcome

        annotation = annotation_t(dtype, mneme_absolute, mneme_norm_none, 0, 0, c_null_ptr)
        if (present(threshold)) annotation%threshold = threshold
        if (present(kind)) annotation%threshold_kind = kind
        if (present(norm)) annotation%norm = norm
        if (present(ignore)) annotation%ignore = merge(1, 0, ignore)
        if (present(tag)) then
            name = tag // c_null_char
            annotation%tag = c_loc(name)
        end if
        outcome = 0
        if (present(bytes)) then
            found = dlsym(c_null_ptr, c_char_"mneme_rec_annotate_range" // c_null_char)
        else
            found = dlsym(c_null_ptr, c_char_"mneme_rec_annotate" // c_null_char)
        end if
        if (c_associated(found) .and. present(bytes)) then
            call c_f_procpointer(found, annotate_range)
            outcome = annotate_range(pointer, bytes, annotation)
        else if (c_associated(found)) then
            call c_f_procpointer(found, annotate)
            outcome = annotate(pointer, annotation)
        end if
        if (present(status)) status = outcome
    end subroutine
end module
