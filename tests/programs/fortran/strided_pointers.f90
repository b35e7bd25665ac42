! Pointers whose last element is the array's last, with other elements between: GCC counts a whole stride for it too, past the end.
program main
  use check
  implicit none
  real(8), target, allocatable :: a(:), m(:, :)
  real(8), pointer :: p(:), q(:, :)
  integer :: i, j
  allocate (a(30), m(6, 5))
  a = 1
  m = 1
  !$acc data copy(a, m)
  p => a(21:30:3)
  !$acc parallel loop default(present)
  do i = 1, size(p)
    p(i) = p(i) + 7
  end do
  p => a(2:30:4)
  !$acc parallel loop present(p)
  do i = 1, size(p)
    p(i) = p(i) + 100
  end do
  q => m(2:6, 2:5)
  !$acc parallel loop collapse(2) present(q)
  do j = 1, 4
    do i = 1, 5
      q(i, j) = q(i, j) + 10*j + i
    end do
  end do
  q => m(6:6, 1:5:2)
  !$acc kernels present(q)
  q(1, 3) = q(1, 3) + 1000
  !$acc end kernels
  !$acc update self(q)
  call through(a(3:27:9), 3)
  !$acc end data
  do i = 1, 30
    call equal('a', a(i), 1d0 + merge(7, 0, i >= 21 .and. mod(i, 3) == 0) + merge(100, 0, mod(i, 4) == 2) &
      + merge(50, 0, mod(i, 9) == 3 .and. i < 30))
  end do
  call equal('m', m(2, 2), 12d0)
  call equal('m', m(6, 5), 1046d0)
  call equal('m', m(1, 5), 1d0)
  ! Copied both ways: only what the pointer reaches.
  p => a(28:30:2)
  !$acc parallel loop copy(p)
  do i = 1, size(p)
    p(i) = -i
  end do
  call equal('a', a(28), -1d0)
  call equal('a', a(30), -2d0)
  call equal('a', a(29), 1d0)
  ! Mapped by the pointer, and found by a dummy argument, whose constructs have no descriptor.
  p => a(1:30:3)
  !$acc enter data copyin(p)
  call through(p, 10)
  !$acc exit data copyout(p)
  call equal('a', a(4), 51d0)
  call pass
contains
  subroutine through(x, n)
    real(8) :: x(:)
    integer :: n, i
    !$acc parallel loop present(x)
    do i = 1, n
      x(i) = x(i) + 50
    end do
  end subroutine
end program
