! contiguous pointers and dummies, rank remapping of one block, and a function that gives a pointer: the clause sees through all of
! them to the same memory.
module views
  implicit none
  real(8), target :: block_(120) = 0
contains
  function plane(k) result(p)
    integer, intent(in) :: k
    real(8), pointer, contiguous :: p(:, :)
    p(1:6, 0:4) => block_((k - 1)*30 + 1:k*30)
  end function
  subroutine fill(a, n, m, by)
    integer, intent(in) :: n, m
    real(8), contiguous, intent(inout) :: a(:, :)
    real(8), intent(in) :: by
    integer :: i, j
    !$acc parallel loop collapse(2) present(a)
    do j = 1, m
      do i = 1, n
        a(i, j) = a(i, j) + by + i + 10*j
      end do
    end do
  end subroutine
end module
program main
  use check
  use views
  implicit none
  real(8), pointer, contiguous :: p(:, :), flat(:), cube(:, :, :)
  integer :: k, i, j
  !$acc enter data copyin(block_)
  do k = 1, 4
    p => plane(k)
    call equal('present', acc_is_present(p), .true.)
    call fill(p, 6, 5, 100d0*k)
  end do
  flat(0:) => block_
  cube(1:6, 1:5, 1:4) => block_
  !$acc parallel loop collapse(3) present(cube)
  do k = 1, 4
    do j = 1, 5
      do i = 1, 6
        cube(i, j, k) = cube(i, j, k)*2
      end do
    end do
  end do
  !$acc serial present(flat)
  flat(119) = flat(0) + ubound(flat, 1)
  !$acc end serial
  p => plane(2)
  !$acc update self(p)
  call equal('plane 2', p(6, 4), 2*(200d0 + 6 + 50))
  call equal('plane 1 not yet', block_(1), merge(0d0, 222d0, separate()))
  !$acc exit data copyout(block_)
  call equal('plane 3', cube(1, 1, 3), 2*(300d0 + 1 + 10))
  call equal('the last', block_(120), 222d0 + 119)
  call pass()
end program
