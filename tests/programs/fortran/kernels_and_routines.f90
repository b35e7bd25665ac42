! kernels, serial, routines in modules, contained procedures, collapse and private.
module work
  implicit none
contains
  pure integer function twice(i)
    !$acc routine seq
    integer, intent(in) :: i
    twice = 2*i
  end function
  subroutine fill(row, k)
    !$acc routine vector
    integer, intent(out) :: row(:)
    integer, intent(in) :: k
    integer :: i
    !$acc loop vector
    do i = 1, size(row)
      row(i) = twice(k) + i
    end do
  end subroutine
end module

program main
  use check
  use work
  implicit none
  integer :: a(10, 12), b(10), i, j, t
  !$acc kernels copyout(a)
  do j = 1, 12
    do i = 1, 10
      a(i, j) = twice(i) + j
    end do
  end do
  !$acc end kernels
  call equal('a(10, 12)', a(10, 12), 32)
  !$acc parallel loop collapse(2) private(t) copy(a)
  do j = 1, 12
    do i = 1, 10
      t = a(i, j)
      a(i, j) = t*t
    end do
  end do
  call equal('a(1, 1)', a(1, 1), 9)
  !$acc parallel loop gang copyout(a)
  do j = 1, 12
    call fill(a(:, j), j)
  end do
  call equal('a(3, 4)', a(3, 4), 11)
  !$acc serial copyout(b)
  b(1) = 1
  do i = 2, 10
    b(i) = b(i - 1) + i
  end do
  !$acc end serial
  call equal('b(10)', b(10), 55)
  call pass()
end program
