program annotated
    use, intrinsic :: iso_c_binding
    use mneme
    implicit none

    interface
        function wobble_allocate(bytes) bind(c) result(memory)
            import :: c_ptr, c_size_t
            integer(c_size_t), value :: bytes
            type(c_ptr) :: memory
        end function
        function wobble_run(values, ticks, n) bind(c) result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: values, ticks
            integer(c_int), value :: n
            integer(c_int) :: status
        end function
        function wobble_is_silent() bind(c) result(silent)
            import :: c_int
            integer(c_int) :: silent
        end function
    end interface

    integer(c_int), parameter :: n = 1000
    type(c_ptr) :: values, ticks

    values = wobble_allocate(8_c_size_t * n)
    ticks = wobble_allocate(8_c_size_t * n)
    if (wobble_is_silent() == 0) then
        call mneme_annotate(values, mneme_f64, threshold=1e-8_c_double, kind=mneme_relative, tag="values")
        call mneme_annotate(ticks, mneme_u64, ignore=.true., tag="ticks")
    end if
    if (wobble_run(values, ticks, n) /= 0) error stop 1
end program
