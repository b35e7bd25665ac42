! Finalizers of objects in every place: locals, components, array elements, what an assignment replaces, what deallocate ends. Each gives
! up one reference of what it has on the device.
module handles
  use openacc
  implicit none
  integer, target :: store(50, 4) = 0
  type handle
    integer :: column = 0
  contains
    final :: close_one
  end type
  type holder
    type(handle) :: inner
    integer :: tag = 9
  end type
contains
  subroutine open_(h, column)
    type(handle), intent(inout) :: h
    integer, intent(in) :: column
    h%column = column
    !$acc enter data copyin(store(:, column))
  end subroutine
  impure elemental subroutine close_one(h)
    type(handle), intent(inout) :: h
    if (h%column == 0) return
    !$acc exit data copyout(store(:, h%column))
    h%column = 0
  end subroutine
  subroutine local(column)
    integer, intent(in) :: column
    type(handle) :: h
    type(holder), allocatable :: a(:)
    integer :: i
    call open_(h, column)
    allocate (a(3))
    call open_(a(1)%inner, column)
    call open_(a(3)%inner, column + 1)
    !$acc parallel loop present(store(:, column:column))
    do i = 1, 50
      store(i, column) = store(i, column) + i
    end do
    !$acc parallel loop present(store(:, column + 1:column + 1))
    do i = 1, 50
      store(i, column + 1) = store(i, column + 1) - i
    end do
    deallocate (a)
    if (.not. acc_is_present(store(:, column))) error stop 'gone too early'
  end subroutine
end module
program main
  use check
  use handles
  implicit none
  integer :: k
  do k = 1, 3
    call local(1)
    call local(3)
    call equal('column 1', store(50, 1), 50*k)
    call equal('column 4', store(2, 4), -2*k)
    call equal('nothing is left', acc_is_present(store(:, 1)) .or. acc_is_present(store(:, 4)), want(.false., .true.))
  end do
  call pass()
end program
