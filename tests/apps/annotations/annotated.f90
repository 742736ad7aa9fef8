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
        function wobble_run_pool(pool, n) bind(c) result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: pool
            integer(c_int), value :: n
            integer(c_int) :: status
        end function
        function wobble_is_silent() bind(c) result(silent)
            import :: c_int
            integer(c_int) :: silent
        end function
    end interface

    integer(c_int), parameter :: n = 1000
    type(c_ptr) :: values, ticks, pool

    values = wobble_allocate(8_c_size_t * n)
    ticks = wobble_allocate(8_c_size_t * n)
    pool = wobble_allocate(20_c_size_t * n)
    if (wobble_is_silent() == 0) then
        call mneme_annotate(values, mneme_f64, threshold=1e-8_c_double, kind=mneme_relative, tag="values")
        call mneme_annotate(ticks, mneme_u64, ignore=.true., tag="ticks")
        call mneme_annotate(pool, mneme_f64, threshold=1e-8_c_double, kind=mneme_relative, tag="values", &
            bytes=8_c_size_t * n)
        call mneme_annotate(field(8_c_size_t * n), mneme_u64, ignore=.true., tag="ticks", bytes=8_c_size_t * n)
        call mneme_annotate(field(16_c_size_t * n), mneme_u32, tag="numbers", bytes=4_c_size_t * n)
    end if
    if (wobble_run(values, ticks, n) /= 0) error stop 1
    if (wobble_run_pool(pool, n) /= 0) error stop 1

contains

    ! The address of a field in the pool.
    function field(offset) result(address)
        integer(c_size_t), intent(in) :: offset
        type(c_ptr) :: address

        address = transfer(transfer(pool, offset) + offset, address)
    end function
end program
