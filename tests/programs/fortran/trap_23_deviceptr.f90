! deviceptr in Fortran: a dummy that is a device address, on a compute and on a data construct.
! EXPECT device-memory
module kernels
  implicit none
contains
  subroutine fill(x, n)
    integer, intent(in) :: n
    integer :: x(n)
    integer :: i
    !$acc parallel loop deviceptr(x)
    do i = 1, n
      x(i) = 3*i
    end do
  end subroutine
  subroutine double_it(x, n)
    integer, intent(in) :: n
    integer :: x(n)
    integer :: i
    !$acc data deviceptr(x)
    !$acc parallel loop
    do i = 1, n
      x(i) = 2*x(i)
    end do
    !$acc end data
  end subroutine
end module

program main
  use check
  use kernels
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    type(c_ptr) function device_malloc(bytes) bind(c, name='acc_malloc')
      import
      integer(c_size_t), value :: bytes
    end function
    subroutine device_free(p) bind(c, name='acc_free')
      import
      type(c_ptr), value :: p
    end subroutine
    subroutine from_device(h, d, bytes) bind(c, name='acc_memcpy_from_device')
      import
      integer, intent(out) :: h(*)
      type(c_ptr), value :: d
      integer(c_size_t), value :: bytes
    end subroutine
  end interface
  integer, parameter :: n = 50
  integer :: h(n), i, round
  integer, pointer :: x(:)
  type(c_ptr) :: d
  d = device_malloc(int(4*n, c_size_t))
  call c_f_pointer(d, x, [n])
  do round = 1, 2 ! trap 3: the construct's static tables must not be edited
    call fill(x, n)
    call double_it(x, n)
    h = 0
    call from_device(h, d, int(4*n, c_size_t))
    do i = 1, n
      call equal('h(i)', h(i), 6*i)
    end do
  end do
  call device_free(d)
  call pass()
end program
