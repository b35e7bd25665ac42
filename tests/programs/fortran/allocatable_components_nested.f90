! Components of components, all allocatable, brought from the outermost inwards and given up the other way round; one of them is
! allocated anew in between.
module tree
  implicit none
  type leaf
    real(8), allocatable :: v(:)
  end type
  type branch
    integer, allocatable :: index(:)
    type(leaf), allocatable :: leaves(:)
  end type
  type trunk
    integer :: height = 3
    type(branch), allocatable :: branches(:)
  end type
end module
program main
  use check
  use tree
  implicit none
  type(trunk) :: t
  integer :: b, l, i
  real(8) :: total
  allocate (t%branches(2))
  do b = 1, 2
    allocate (t%branches(b)%index(4), source=[4, 3, 2, 1])
    allocate (t%branches(b)%leaves(3))
    do l = 1, 3
      allocate (t%branches(b)%leaves(l)%v(4*l), source=real(b, 8))
    end do
  end do
  call bring(t)
  call grow(t)
  total = 0
  !$acc parallel loop reduction(+:total) present(t)
  do i = 1, 4
    total = total + t%branches(2)%leaves(3)%v(t%branches(1)%index(i))
  end do
  call equal('total', total, 8d0 + 10)
  !$acc exit data copyout(t%branches(2)%leaves(3)%v)
  call equal('v', t%branches(2)%leaves(3)%v(12), 14d0)
  deallocate (t%branches(2)%leaves(3)%v)
  allocate (t%branches(2)%leaves(3)%v(-1:1), source=100d0)
  !$acc enter data copyin(t%branches(2)%leaves(3)%v)
  !$acc serial present(t)
  t%branches(2)%leaves(3)%v(-1) = t%branches(2)%leaves(3)%v(1) + t%height + size(t%branches(2)%leaves(3)%v)
  !$acc end serial
  !$acc update self(t%branches(2)%leaves(3)%v)
  call equal('the new one', t%branches(2)%leaves(3)%v(-1), 106d0)
  call leave(t)
  call equal('b 1, l 2', t%branches(1)%leaves(2)%v(8), 9d0)
  call pass()
contains
  subroutine bring(t)
    type(trunk), intent(inout) :: t
    integer :: b, l
    !$acc enter data copyin(t)
    !$acc enter data copyin(t%branches)
    do b = 1, size(t%branches)
      !$acc enter data copyin(t%branches(b)%index)
      !$acc enter data copyin(t%branches(b)%leaves)
      do l = 1, size(t%branches(b)%leaves)
        !$acc enter data copyin(t%branches(b)%leaves(l)%v)
      end do
    end do
  end subroutine
  subroutine grow(t)
    type(trunk), intent(inout) :: t
    integer :: b, l, i
    !$acc parallel loop collapse(2) present(t)
    do b = 1, 2
      do l = 1, 3
        do i = 1, size(t%branches(b)%leaves(l)%v)
          t%branches(b)%leaves(l)%v(i) = t%branches(b)%leaves(l)%v(i) + i
        end do
      end do
    end do
  end subroutine
  subroutine leave(t)
    type(trunk), intent(inout) :: t
    integer :: b, l
    do b = 1, size(t%branches)
      do l = 1, size(t%branches(b)%leaves)
        !$acc exit data copyout(t%branches(b)%leaves(l)%v)
      end do
      !$acc exit data delete(t%branches(b)%leaves)
      !$acc exit data delete(t%branches(b)%index)
    end do
    !$acc exit data delete(t%branches)
    !$acc exit data delete(t)
  end subroutine
end program
