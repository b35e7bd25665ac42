! declare variables of a module that regions of its submodule and of that one's own submodule use, and variables of a submodule itself.
module climate
  implicit none
  real(8) :: albedo(12), heat(12)
  !$acc declare create(albedo) copyin(heat)
  interface
    module subroutine warm(by)
      real(8), intent(in) :: by
    end subroutine
    module subroutine total(r)
      real(8), intent(out) :: r
    end subroutine
  end interface
end module
submodule (climate) weather
  implicit none
  real(8) :: rain(12) = 3
  !$acc declare copyin(rain)
  interface
    module subroutine pour(k)
      integer, intent(in) :: k
    end subroutine
  end interface
contains
  module procedure warm
    integer :: i
    !$acc parallel loop
    do i = 1, 12
      albedo(i) = i
      heat(i) = by*albedo(i)
    end do
    call pour(2)
  end procedure
  module procedure total
    integer :: i
    r = 0
    !$acc parallel loop reduction(+:r)
    do i = 1, 12
      r = r + heat(i) + rain(i)
    end do
  end procedure
end submodule
submodule (climate:weather) storms
contains
  module procedure pour
    integer :: i
    !$acc parallel loop firstprivate(k)
    do i = 1, 12
      rain(i) = rain(i)*k
    end do
  end procedure
end submodule
program main
  use check
  use climate
  implicit none
  real(8) :: r
  heat = 0
  albedo = 0
  call warm(0.5d0)
  call total(r)
  call equal('total', r, 39d0 + 72)
  call equal('the host''s', sum(heat), merge(0d0, 39d0, separate()))
  !$acc update self(heat(1:12))
  call equal('heat', sum(heat), 39d0)
  call pass()
end program
