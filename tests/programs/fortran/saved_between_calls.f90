! A library's procedure that keeps its work array on the device from one call to the next, and makes it larger when it has to.
module library
  implicit none
contains
  subroutine accumulate(x, r)
    real(8), intent(in) :: x(:)
    real(8), intent(out) :: r
    real(8), allocatable, save :: work(:)
    integer :: i, n
    n = size(x)
    if (allocated(work)) then
      if (size(work) < n) then
        !$acc exit data delete(work)
        deallocate (work)
      end if
    end if
    if (.not. allocated(work)) then
      allocate (work(n))
      work = 0
      !$acc enter data copyin(work)
    end if
    r = 0
    !$acc parallel loop present(work) copyin(x) reduction(+:r)
    do i = 1, n
      work(i) = work(i) + x(i)
      r = r + work(i)
    end do
  end subroutine
end module
program main
  use check
  use library
  implicit none
  real(8) :: x(60), r
  x = 1
  call accumulate(x(1:20), r)
  call equal('first', r, 20d0)
  call accumulate(x(1:10), r)
  call equal('kept', r, 20d0)
  call accumulate(x, r)
  call equal('made anew', r, 60d0)
  call accumulate(x(41:60), r)
  call equal('kept again', r, 40d0)
  call pass()
end program
