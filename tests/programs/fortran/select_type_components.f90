! Components of what `select type` stands for: GCC 12 takes the component's address for that of the object, also without a device.
! EXPECT device-memory
module shapes
  implicit none
  type shape
    integer :: id = 3
  end type
  type, extends(shape) :: box
    real :: w(4) = 0
    integer :: k = 1
    real, allocatable :: v(:)
  end type
contains
  subroutine fill(s, device)
    class(shape), intent(inout) :: s
    logical, intent(in) :: device
    integer :: i
    select type (s)
    type is (box)
      !$acc parallel loop copy(s%w) if(device)
      do i = 1, 4
        s%w(i) = s%w(i) + i
      end do
      !$acc serial copy(s%k) async(1) if(device)
      s%k = s%k + 1
      !$acc end serial
      !$acc wait(1)
    class default
      stop 2
    end select
  end subroutine
end module
program main
  use check
  use shapes
  implicit none
  type(box), target :: b
  class(shape), allocatable :: a
  integer :: i
  call fill(b, .true.)
  call fill(b, .false.)
  do i = 1, 4
    call equal('w', b%w(i), 2.*i)
  end do
  call equal('k', b%k, 3)
  call equal('id', b%id, 3)
  allocate (a, source=b)
  call fill(a, .true.)
  select type (a)
  type is (box)
    call equal('allocatable', a%w(4), 12.)
    call equal('allocatable: k', a%k, 4)
  end select
  call pass()
end program
