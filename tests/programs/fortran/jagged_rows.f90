! An array of types with pointers to rows of different lengths, all in one buffer or each allocated.
module rows_of
  implicit none
  type row
    integer, pointer :: v(:) => null()
  end type
end module
program main
  use check
  use rows_of
  implicit none
  type(row) :: rows(6)
  integer, target :: buffer(21)
  integer :: i, k, first, sums(6)
  buffer = 0
  first = 1
  do i = 1, 6
    rows(i)%v => buffer(first:first + i - 1)
    first = first + i
  end do
  !$acc enter data copyin(buffer)
  !$acc enter data copyin(rows)
  do i = 1, 6
    !$acc enter data copyin(rows(i)%v)
  end do
  !$acc parallel loop gang present(rows) copyout(sums)
  do i = 1, 6
    !$acc loop vector
    do k = 1, size(rows(i)%v)
      rows(i)%v(k) = 10*i + k
    end do
    sums(i) = size(rows(i)%v)
  end do
  do i = 1, 6
    !$acc exit data delete(rows(i)%v)
  end do
  !$acc exit data delete(rows)
  !$acc exit data copyout(buffer)
  first = 0
  do i = 1, 6
    call equal('size', sums(i), i)
    do k = 1, i
      first = first + 1
      call equal('buffer', buffer(first), 10*i + k)
    end do
  end do
  call pass()
end program
