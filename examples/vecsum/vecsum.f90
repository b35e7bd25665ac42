! c = a + b, where a and b are filled at the same time in two queues; see vecsum.c.
program vecsum
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  real(real64), allocatable :: a(:), b(:), c(:)
  character(32) :: word
  integer :: i, n, status

  n = 1000000
  if (command_argument_count() > 0) then
    call get_command_argument(1, word)
    read (word, *, iostat=status) n
    if (status /= 0 .or. n < 1) then
      write (*, '(a)') 'usage: vecsum-fortran [elements]'
      stop 2
    end if
  end if
  allocate (a(n), b(n), c(n))

  !$acc data create(a, b, c)
  !$acc parallel loop async(1)
  do i = 1, n
    a(i) = i - 1
  end do
  !$acc parallel loop async(2)
  do i = 1, n
    b(i) = 2.0_real64 * (i - 1)
  end do
  !$acc wait(1) async(2)
  !$acc parallel loop async(2)
  do i = 1, n
    c(i) = a(i) + b(i)
  end do
  !$acc update self(c) async(2)
  !$acc wait
  !$acc end data

  do i = 1, n
    if (c(i) /= 3.0_real64 * (i - 1)) error stop 'vecsum: wrong sum'
  end do
  write (*, '(a,i0,a,i0)') 'elements=', n, ' sum=', nint(sum(c), kind=8)
end program
