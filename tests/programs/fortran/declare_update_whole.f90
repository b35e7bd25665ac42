! update of whole declare variables, which GCC leaves out: where a setting allows it, it is said, with the line and who mends it.
! EXPECT device-memory
! EXPECT stderr=/accord: update \(declare_update_whole\.f90:17, MAIN__\) copies nothing.*accord cc, c\+\+ or fc/
! RUN env=ACCORD_DROPPED_UPDATES=warn
module data
  integer :: g(20) = 0, k = 0
  !$acc declare create(g, k)
end module
program main
  use check
  use data
  implicit none
  integer :: i, total
  g = [(i, i = 1, 20)]
  k = 4
  do i = 1, 3
    !$acc update device(g, k)
  end do
  !$acc update device(g(:))
  call acc_update_device(k, 4)
  total = 0
  !$acc parallel loop reduction(+:total)
  do i = 1, 20
    total = total + g(i)*k
    g(i) = -1
  end do
  call equal('total', total, 840)
  call equal('g', g(5), want(5, -1))
  !$acc update self(g(:))
  call equal('g', g(5), -1)
  call pass()
end program
