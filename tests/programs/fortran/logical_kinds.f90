! Logicals of every kind: arrays, masks, reductions, and their values beside .true. and .false. in memory.
program main
  use check
  implicit none
  integer, parameter :: n = 40
  logical(1) :: a(n)
  logical(2) :: b(n)
  logical(4) :: c(n)
  logical(8) :: d(n), any8
  logical(1) :: all1
  integer :: i, counts(4)
  a = .false.
  b = .true.
  c = .false.
  d = .true.
  counts = 0
  !$acc parallel loop copy(a, b, c, d)
  do i = 1, n
    a(i) = mod(i, 2) == 0
    b(i) = b(i) .and. mod(i, 3) == 0
    c(i) = a(i) .neqv. b(i)
    d(i) = .not. (d(i) .eqv. c(i))
  end do
  do i = 1, n
    call equal('a', logical(a(i), 4), mod(i, 2) == 0)
    call equal('b', logical(b(i), 4), mod(i, 3) == 0)
    call equal('c', c(i), (mod(i, 2) == 0) .neqv. (mod(i, 3) == 0))
    call equal('d', logical(d(i), 4), .not. c(i))
  end do
  call equal('in memory', transfer(a(2), 0_1) + transfer(d(6), 0_8) + transfer(b(3), 0_2) == 3, .true.)
  all1 = .true.
  any8 = .false.
  !$acc parallel loop copyin(a, d) reduction(.and.:all1) reduction(.or.:any8)
  do i = 2, n, 2
    all1 = all1 .and. a(i)
    any8 = any8 .or. d(i)
  end do
  call equal('all', logical(all1, 4), .true.)
  call equal('any', logical(any8, 4), .true.)
  !$acc kernels copyin(a, b, c, d) copyout(counts)
  counts(1) = count(a)
  counts(2) = count(b)
  counts(3) = count(c)
  counts(4) = count(d)
  !$acc end kernels
  call equal('counts', sum(counts - [20, 13, count(c), count(.not. c)]), 0)
  call pass()
end program
