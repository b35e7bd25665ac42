! What old codes bring along: ENTRY, statement functions, arithmetic IF, computed GO TO, alternate returns and DATA, around and inside of
! regions.
! BUILD flags=-std=legacy
      subroutine init(a, n)
        integer :: n, i, k
        real(8) :: a(n), x, cube
        integer, save :: calls
        data calls /0/
        cube(x) = x*x*x
        calls = calls + 1
        !$acc parallel loop copyout(a)
        do 10 i = 1, n
          a(i) = cube(i*1d0)
10      continue
        return
        entry again(a, n, k)
        calls = calls + 1
        k = calls
        !$acc parallel loop copy(a)
        do 30 i = 1, n
          if (mod(i, 3) - 1) 21, 22, 23
21        a(i) = a(i) + 1
          goto 30
22        a(i) = a(i) + 2
          goto 30
23        a(i) = a(i) + 3
30      continue
      end subroutine
      subroutine choose(j, a, *, *)
        integer :: j
        real(8) :: a(12)
        !$acc update self(a)
        go to (1, 2) j
        return
1       return 1
2       return 2
      end subroutine
program main
  use check
  implicit none
  real(8) :: a(12)
  integer :: i, k, j, passed
  call init(a, 12)
  call equal('cubes', sum(a), 6084d0)
  call again(a, 12, k)
  call equal('the second call', k, 2)
  call equal('by thirds', sum(a), 6084d0 + 4*6)
  passed = 0
  !$acc enter data copyin(a)
  do j = 1, 3
    call choose(j, a, *100, *200)
    passed = passed + 1
    cycle
100 passed = passed + 10
    cycle
200 passed = passed + 100
  end do
  !$acc exit data delete(a)
  call equal('returns', passed, 111)
  do i = 1, 12
    call equal('a', a(i), real(i, 8)**3 + mod(i, 3) + 1)
  end do
  call pass()
end program
