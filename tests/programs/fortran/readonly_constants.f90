! Literals as arguments of routines with kernels regions, and parameter arrays in clauses: constants that GCC maps to be
! copied both ways.
module work
  implicit none
  real(8), parameter :: weights(4) = [1d0, 2d0, 3d0, 4d0]
  integer, parameter :: primes(6) = [2, 3, 5, 7, 11, 13]
contains
  subroutine fill(a, n, first, step)
    integer, intent(in) :: n
    real(8) :: a(n), first, step
    integer :: i
    !$acc kernels
    do i = 1, n
      a(i) = first + step * i
    end do
    !$acc end kernels
  end subroutine

  subroutine fill_async(a, n, first, step)
    integer, intent(in) :: n
    real(8) :: a(n), first, step
    integer :: i
    !$acc kernels async(1) copyout(a)
    do i = 1, n
      a(i) = first + step * i
    end do
    !$acc end kernels
    !$acc wait(1)
  end subroutine

  subroutine total(values, n, sum)
    integer :: n, i
    integer :: values(n), sum
    sum = 0
    !$acc parallel loop copy(values, n, sum) reduction(+:sum)
    do i = 1, n
      sum = sum + values(i)
    end do
  end subroutine

  subroutine resident(values, n, sum)
    integer :: n, i
    real(8) :: values(n), sum
    sum = 0
    !$acc data copy(values)
    !$acc parallel loop reduction(+:sum)
    do i = 1, n
      sum = sum + values(i)
    end do
    !$acc update self(values)
    !$acc end data
    !$acc enter data copyin(values)
    !$acc exit data copyout(values)
  end subroutine

  subroutine letters(text, n, count)
    character(*) :: text
    integer :: n, count, i
    count = 0
    !$acc kernels copy(text)
    do i = 1, n
      if (text(i:i) == 'c') count = count + 1
    end do
    !$acc end kernels
  end subroutine
end module

program main
  use check
  use work
  real(8) :: a(100), x
  integer :: i, n
  call fill(a, 100, 1d0, 0.5d0)
  do i = 1, 100
    call equal('a', a(i), 1d0 + 0.5d0 * i)
  end do
  call fill_async(a, 100, 2d0, 0.25d0)
  do i = 1, 100
    call equal('a', a(i), 2d0 + 0.25d0 * i)
  end do
  call total(primes, 6, n)
  call equal('sum of primes', n, 41)
  call resident(weights, 4, x)
  call equal('sum of weights', x, 10d0)
  call letters('accord accord', 13, n)
  call equal('letters', n, 4)
  call pass
end program
