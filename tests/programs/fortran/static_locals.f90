! Local variables in static memory (-fno-automatic), as old codes want it: present from one call to the next, and named again by regions of
! other calls.
! BUILD flags=-fno-automatic
module work
  implicit none
contains
  subroutine step(first, total)
    logical, intent(in) :: first
    real(8), intent(out) :: total
    real(8) :: field(50), scale
    integer :: i
    if (first) then
      scale = 1
      field = 0
      !$acc enter data copyin(field)
    end if
    scale = scale*2
    !$acc parallel loop present(field)
    do i = 1, 50
      field(i) = field(i) + scale
    end do
    total = 0
    !$acc parallel loop present(field) reduction(+:total)
    do i = 1, 50
      total = total + field(i)
    end do
  end subroutine
end module
program main
  use check
  use work
  implicit none
  real(8) :: total
  integer :: k
  do k = 1, 5
    call step(k == 1, total)
    call equal('total', total, 50d0*(2**(k + 1) - 2))
  end do
  call pass()
end program
