! Assumed-size dummies as old libraries have them: work arrays that are cut into pieces, offsets into one long vector, and a leading
! dimension that is larger than the matrix.
module blas_like
  implicit none
contains
  subroutine axpy(n, alpha, x, incx, y, incy)
    integer, intent(in) :: n, incx, incy
    real(8), intent(in) :: alpha, x(*)
    real(8), intent(inout) :: y(*)
    integer :: i
    !$acc parallel loop copyin(x(1:1 + (n - 1)*incx)) copy(y(1:1 + (n - 1)*incy))
    do i = 0, n - 1
      y(1 + i*incy) = y(1 + i*incy) + alpha*x(1 + i*incx)
    end do
  end subroutine
  subroutine gemv(m, n, a, lda, x, y)
    integer, intent(in) :: m, n, lda
    real(8), intent(in) :: a(lda, *), x(*)
    real(8), intent(out) :: y(*)
    integer :: i, j
    real(8) :: s
    !$acc parallel loop private(s) copyin(a(1:lda, 1:n), x(1:n)) copyout(y(1:m))
    do i = 1, m
      s = 0
      do j = 1, n
        s = s + a(i, j)*x(j)
      end do
      y(i) = s
    end do
  end subroutine
  subroutine pieces(n, work)
    integer, intent(in) :: n
    real(8), intent(inout) :: work(3*n)
    call axpy(n, 2d0, work(1), 1, work(n + 1), 1)
    call axpy(n, 1d0, work(n + 1), 1, work(2*n + 1), 1)
  end subroutine
end module
program main
  use check
  use blas_like
  implicit none
  real(8) :: x(20), y(20), a(8, 6), w(30)
  integer :: i, j
  x = 1
  y = 2
  call axpy(5, 3d0, x, 2, y(3), 4)
  call equal('y', sum(y), 40d0 + 15)
  call equal('y(19)', y(19), 5d0)
  call equal('y(20)', y(20), 2d0)
  do j = 1, 6
    do i = 1, 8
      a(i, j) = merge(i + 10*j, 1000, i <= 5)
    end do
  end do
  call gemv(5, 4, a, 8, x, y)
  call equal('gemv', y(5), 4*5d0 + 100)
  call equal('beyond', y(6), 2d0)
  w(1:10) = 1
  w(11:20) = 10
  w(21:30) = 100
  call pieces(10, w)
  call equal('pieces', sum(w), 10d0 + 120 + 1120)
  call axpy(20, -1d0, a(1, 2), 1, w, 1)
  call equal('across columns', w(1), 1d0 - 21)
  call equal('a column and four', w(12), 12d0 - 34)
  call pass()
end program
