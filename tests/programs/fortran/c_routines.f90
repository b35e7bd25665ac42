! OpenACC's routines for device memory by their C names, which Fortran has no names for: allocate, copy, map, deviceptr.
module routines
  use iso_c_binding
  implicit none
  interface
    function acc_malloc(bytes) bind(c) result(p)
      import :: c_size_t, c_ptr
      integer(c_size_t), value :: bytes
      type(c_ptr) :: p
    end function
    subroutine acc_free(p) bind(c)
      import :: c_ptr
      type(c_ptr), value :: p
    end subroutine
    subroutine acc_memcpy_to_device(to, from, bytes) bind(c)
      import :: c_size_t, c_ptr
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
    end subroutine
    subroutine acc_memcpy_from_device(to, from, bytes) bind(c)
      import :: c_size_t, c_ptr
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
    end subroutine
    subroutine acc_map_data(host, device, bytes) bind(c)
      import :: c_size_t, c_ptr
      type(c_ptr), value :: host, device
      integer(c_size_t), value :: bytes
    end subroutine
    subroutine acc_unmap_data(host) bind(c)
      import :: c_ptr
      type(c_ptr), value :: host
    end subroutine
    function acc_deviceptr(host) bind(c) result(p)
      import :: c_ptr
      type(c_ptr), value :: host
      type(c_ptr) :: p
    end function
  end interface
contains
  subroutine on_device(x, n)
    integer, intent(in) :: n
    integer :: x(n), i
    !$acc parallel loop deviceptr(x)
    do i = 1, n
      x(i) = x(i)*3
    end do
  end subroutine
end module
program main
  ! GCC 15's module has the others by itself.
  use check, only: equal, pass, separate
  use openacc, only: acc_is_present
  use routines
  implicit none
  type(c_ptr) :: p
  integer, target :: a(30), b(30)
  integer, pointer :: x(:)
  integer(c_size_t), parameter :: bytes = 120
  integer :: i
  a = [(i, i = 1, 30)]
  p = acc_malloc(bytes)
  call acc_memcpy_to_device(p, c_loc(a), bytes)
  call c_f_pointer(p, x, [30])
  call on_device(x, 30)
  call acc_memcpy_from_device(c_loc(b), p, bytes)
  call equal('b', sum(b), 3*465)
  if (separate()) then
    call acc_map_data(c_loc(a), p, bytes)
    call equal('mapped', acc_is_present(a), .true.)
    call equal('its address', c_associated(acc_deviceptr(c_loc(a)), p), .true.)
    !$acc parallel loop present(a)
    do i = 1, 30
      a(i) = a(i) + 1
    end do
    !$acc update self(a)
    call equal('a', sum(a), 3*465 + 30)
    call acc_unmap_data(c_loc(a))
  end if
  call acc_free(p)
  call pass()
end program
