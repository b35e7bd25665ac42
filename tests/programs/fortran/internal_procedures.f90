! Internal procedures that use what belongs to their host: regions find it by the frame of the host.
program main
  use check
  implicit none
  real(8) :: a(40), scale
  integer :: n
  n = 40
  scale = 2
  a = 1
  call outer(3d0)
  call equal('a', sum(a), 40*(1 + 2 + 3) + 40d0)
  call equal('scale', scale, 5d0)
  call pass()
contains
  subroutine outer(by)
    real(8), intent(in) :: by
    integer :: i
    real(8) :: w(40)
    w = by
    !$acc data copy(a)
    !$acc parallel loop copyin(w)
    do i = 1, n
      a(i) = a(i) + scale + w(i)
    end do
    call more()
    !$acc end data
    scale = 5
    call finish()
  end subroutine
  subroutine more()
    integer :: i
    !$acc parallel loop present(a)
    do i = 1, n
      a(i) = a(i) + 1
    end do
  end subroutine
  subroutine finish()
    integer :: i, k
    k = 0
    !$acc parallel loop reduction(+:k)
    do i = 1, n
      k = k + int(a(i))
    end do
    call equal('k', k, 280)
  end subroutine
end program
