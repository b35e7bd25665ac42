! Coarrays, compiled for one image: their descriptors have dimensions more than their rank, and clauses take them like other arrays.
! BUILD flags=-fcoarray=single
program main
  use check
  implicit none
  real(8) :: a(20)[*]
  real(8), allocatable :: b(:, :)[:]
  integer :: i, j
  allocate (b(5, 0:3)[*])
  a = this_image()
  b = num_images()
  !$acc parallel loop copy(a)
  do i = 1, 20
    a(i) = a(i) + i
  end do
  !$acc enter data copyin(b)
  !$acc parallel loop collapse(2) present(b)
  do j = 0, 3
    do i = 1, 5
      b(i, j) = b(i, j) + i + 10*j
    end do
  end do
  sync all
  !$acc exit data copyout(b)
  call equal('a', sum(a), 20d0 + 210)
  call equal('b', b(5, 3), 36d0)
  call equal('from this image', b(1, 0)[1], 2d0)
  call pass()
end program
