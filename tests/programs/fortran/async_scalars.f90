! Scalars of asynchronous regions have the values of the call, whether the region takes them as firstprivate, by kernels, or by
! copyin; those that a region makes are there after the wait (2.16).
program main
  use check
  implicit none
  integer, parameter :: n = 64, rounds = 12
  integer :: a(n, rounds), b(n, rounds), c(n, rounds), i, k, step, made(rounds), one
  real(8) :: factor
  logical :: flag
  character(2) :: word
  a = 0
  b = 0
  c = 0
  made = 0
  !$acc data copy(a, b, c)
  do k = 1, rounds
    step = 10*k
    factor = 0.5d0*k
    flag = mod(k, 2) == 0
    word = achar(64 + k)//'z'
    one = 0
    !$acc parallel loop firstprivate(step) async(1)
    do i = 1, n
      a(i, k) = step + i
    end do
    !$acc kernels async(2)
    do i = 1, n
      b(i, k) = int(2*factor)*i
    end do
    !$acc end kernels
    !$acc parallel loop copyin(flag, word) async(3)
    do i = 1, n
      if (flag) c(i, k) = i + ichar(word(1:1))
    end do
    !$acc serial copy(one) async(4)
    one = one + step
    !$acc end serial
    step = -1
    factor = -1
    flag = .false.
    word = '??'
    !$acc wait(4)
    made(k) = one
  end do
  !$acc wait
  !$acc end data
  do k = 1, rounds
    call equal('firstprivate', a(7, k), 10*k + 7)
    call equal('kernels', b(7, k), 7*k)
    call equal('copyin', c(7, k), merge(7 + 64 + k, 0, mod(k, 2) == 0))
    call equal('made', made(k), 10*k)
  end do
  call pass()
end program
