! A small array and a scalar that queues hand to each other: the region that comes last finds what the one before it made of them, also
! where that copies them out only.
program main
  use check
  implicit none
  integer, parameter :: n = 4, rounds = 450
  real(8) :: a(n)
  complex(8) :: z
  integer :: round, i
  do round = 1, rounds
    a = 0
    z = (0, 0)
    !$acc parallel loop copy(a) copy(z) async(1)
    do i = 1, n
      a(i) = a(i) + 591
      if (i == n) z = z + (1, 2)
    end do
    if (mod(round, 2) == 0) then
      !$acc parallel loop copyout(a) copy(z) async(3) wait(1)
      do i = 1, n
        a(i) = 700
        if (i == n) z = z*2
      end do
    else
      !$acc parallel loop copy(a) copyout(z) async(3) wait(1)
      do i = 1, n
        a(i) = a(i) + 109
        if (i == n) z = (2, 4)
      end do
    end if
    !$acc parallel loop copy(a) copy(z) async(1) wait(3)
    do i = 1, n
      a(i) = a(i)*4 + 169
      if (i == n) z = z + (1, 0)
    end do
    !$acc wait
    do i = 1, n
      call equal('an element', a(i), 2969d0)
    end do
    call equal('the real part', real(z), 3d0)
    call equal('the imaginary part', aimag(z), 4d0)
  end do
  call pass()
end program
