! Types in types with allocatable members, and arrays of them, brought over level by level and used as one (2.6.4).
module things
  implicit none
  type leaf
    integer :: n = 0
    real(8), allocatable :: v(:)
  end type
  type branch
    type(leaf) :: first
    type(leaf), allocatable :: leaves(:)
  end type
  type tree
    type(branch), allocatable :: branches(:)
    real(8) :: total = 0
  end type
contains
  subroutine grow(t)
    type(tree), intent(inout) :: t
    integer :: i, j, k
    allocate (t%branches(3))
    do i = 1, 3
      allocate (t%branches(i)%first%v(2), t%branches(i)%leaves(i))
      t%branches(i)%first%v = i
      do j = 1, i
        t%branches(i)%leaves(j)%n = j
        allocate (t%branches(i)%leaves(j)%v(j))
        t%branches(i)%leaves(j)%v = [(100*i + 10*j + k, k = 1, j)]
      end do
    end do
  end subroutine
  subroutine bring(t)
    type(tree), intent(inout) :: t
    integer :: i, j
    !$acc enter data copyin(t)
    !$acc enter data copyin(t%branches)
    do i = 1, 3
      !$acc enter data copyin(t%branches(i)%first%v)
      !$acc enter data copyin(t%branches(i)%leaves)
      do j = 1, i
        !$acc enter data copyin(t%branches(i)%leaves(j)%v)
      end do
    end do
  end subroutine
  subroutine take(t)
    type(tree), intent(inout) :: t
    integer :: i, j
    do i = 1, 3
      do j = 1, i
        !$acc exit data copyout(t%branches(i)%leaves(j)%v)
      end do
      !$acc exit data delete(t%branches(i)%leaves)
      !$acc exit data copyout(t%branches(i)%first%v)
    end do
    !$acc exit data delete(t%branches)
    !$acc exit data delete(t)
  end subroutine
end module
program main
  use check
  use things
  implicit none
  type(tree) :: t
  integer :: i, j, k
  real(8) :: wanted
  call grow(t)
  call bring(t)
  !$acc serial present(t)
  do i = 1, size(t%branches)
    do j = 1, size(t%branches(i)%leaves)
      do k = 1, t%branches(i)%leaves(j)%n
        t%branches(i)%leaves(j)%v(k) = t%branches(i)%leaves(j)%v(k) + 1
        t%total = t%total + t%branches(i)%leaves(j)%v(k)
      end do
    end do
    t%branches(i)%first%v(2) = t%total
  end do
  !$acc end serial
  call take(t)
  wanted = 0
  do i = 1, 3
    do j = 1, i
      do k = 1, j
        call equal('v', t%branches(i)%leaves(j)%v(k), 100d0*i + 10*j + k + 1)
        wanted = wanted + 100*i + 10*j + k + 1
      end do
    end do
    call equal('first', t%branches(i)%first%v(2), wanted)
    call equal('first', t%branches(i)%first%v(1), 1d0*i)
  end do
  call pass()
end program
