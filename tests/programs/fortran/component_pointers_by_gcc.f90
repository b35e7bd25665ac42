! Pointers to components of an allocatable array, and components of what a pointer points to, without debug information and without
! the whole being present: GCC 15 maps what regions need, GCC 13 the second (bad_component_pointer and bad_derived_pointer are about
! older ones).
! BUILD gcc=15
! BUILD flags=-g0
program main
  use check
  implicit none
  type cell
    real :: weight
    integer :: value
  end type
  type box
    integer :: n
    integer, allocatable :: v(:)
  end type
  type(cell), allocatable, target :: cells(:)
  type(box), pointer :: x
  integer, pointer :: p(:)
  integer :: i
  allocate (cells(10))
  cells%weight = 0.5
  cells%value = [(i, i = 1, 10)]
  p => cells%value
  !$acc parallel loop copy(p)
  do i = 1, 10
    p(i) = p(i) + 1
  end do
  call equal('values', sum(cells%value), 65)
  call equal('neighbours', all(cells%weight == 0.5), .true.)
  allocate (x)
  allocate (x%v(10))
  x%v = 1
  !$acc enter data copyin(x%v)
  !$acc parallel loop present(x%v)
  do i = 1, 10
    x%v(i) = x%v(i) + i
  end do
  !$acc exit data copyout(x%v)
  call equal('a component', sum(x%v), 65)
  call pass()
end program
