! What libacc.so provides beyond GCC's module openacc, for Fortran. Compile it with the program,
! and write "use openacc" and "use accord_openacc".

module accord_openacc
  use, intrinsic :: iso_c_binding, only: c_int, c_size_t, c_ptr
  implicit none
  private

  public :: acc_device_cpu
  public :: acc_memcpy_d2d, acc_memcpy_d2d_async
  public :: acc_memcpy_device, acc_memcpy_device_async
  public :: acc_get_default_async, acc_set_default_async

  ! Worker processes on CPU cores.
  integer, parameter :: acc_device_cpu = 64

  interface
    ! From the copy of data_arg_src on one device to that of data_arg_dest on another
    ! (OpenACC 3.3, 3.2.30).
    subroutine acc_memcpy_d2d(data_arg_dest, data_arg_src, bytes, dev_num_dest, dev_num_src) &
        bind(c, name="acc_memcpy_d2d")
      import :: c_int, c_size_t
      type(*), dimension(*) :: data_arg_dest, data_arg_src
      integer(c_size_t), value :: bytes
      integer(c_int), value :: dev_num_dest, dev_num_src
    end subroutine

    subroutine acc_memcpy_d2d_async(data_arg_dest, data_arg_src, bytes, dev_num_dest, &
        dev_num_src, async_arg) bind(c, name="acc_memcpy_d2d_async")
      import :: c_int, c_size_t
      type(*), dimension(*) :: data_arg_dest, data_arg_src
      integer(c_size_t), value :: bytes
      integer(c_int), value :: dev_num_dest, dev_num_src, async_arg
    end subroutine

    ! Within the current device, by device addresses (3.2.28).
    subroutine acc_memcpy_device(data_dev_dest, data_dev_src, bytes) &
        bind(c, name="acc_memcpy_device")
      import :: c_ptr, c_size_t
      type(c_ptr), value :: data_dev_dest, data_dev_src
      integer(c_size_t), value :: bytes
    end subroutine

    subroutine acc_memcpy_device_async(data_dev_dest, data_dev_src, bytes, async_arg) &
        bind(c, name="acc_memcpy_device_async")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: data_dev_dest, data_dev_src
      integer(c_size_t), value :: bytes
      integer(c_int), value :: async_arg
    end subroutine

    ! The queue of "async" without an argument (3.2.13, 3.2.14).
    function acc_get_default_async() bind(c, name="acc_get_default_async")
      import :: c_int
      integer(c_int) :: acc_get_default_async
    end function

    subroutine acc_set_default_async(async_arg) bind(c, name="acc_set_default_async")
      import :: c_int
      integer(c_int), value :: async_arg
    end subroutine
  end interface
end module
