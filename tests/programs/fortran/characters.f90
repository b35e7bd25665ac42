! Character data: arrays, assumed and deferred lengths, substrings.
module texts
  implicit none
contains
  subroutine assumed(t, n)
    integer, intent(in) :: n
    character(len=*), intent(inout) :: t(n)
    integer :: i, k
    !$acc parallel loop copy(t)
    do i = 1, n
      do k = 1, len(t)
        t(i)(k:k) = achar(iachar('a') + mod(i + k, 26))
      end do
    end do
  end subroutine
  subroutine one(s)
    character(len=*), intent(inout) :: s
    integer :: k
    !$acc serial copy(s)
    do k = 1, len(s)
      if (s(k:k) == '-') s(k:k) = '+'
    end do
    !$acc end serial
  end subroutine
end module
program main
  use check
  use texts
  implicit none
  character(5) :: t(30)
  character(:), allocatable :: d
  character(7) :: s
  character(1) :: bytes(256)
  integer :: i, count
  t = '?????'
  call assumed(t, 30)
  do i = 1, 30
    call equal('t(i)', t(i)(3:3) == achar(iachar('a') + mod(i + 3, 26)), .true.)
  end do
  s = 'a-b-c-d'
  call one(s)
  call equal('s', s == 'a+b+c+d', .true.)
  call one(s(1:3))
  d = 'x--y'
  call one(d)
  call equal('d', d == 'x++y', .true.)
  !$acc parallel loop copyout(bytes)
  do i = 1, 256
    bytes(i) = achar(mod(i, 128))
  end do
  count = 0
  !$acc parallel loop copyin(bytes) reduction(+:count)
  do i = 1, 256
    if (bytes(i) == 'A') count = count + 1
  end do
  call equal('count', count, 2)
  call pass()
end program
