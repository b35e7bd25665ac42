! Pointers to several components of one array in one construct: each one's elements lie between the others'.
module cells_of
  implicit none
  type cell
    real(8) :: weight
    integer :: value
    integer :: tag
  end type
  integer, parameter :: n = 30
contains
  subroutine fill(cells)
    type(cell), intent(out) :: cells(:)
    integer :: i
    do i = 1, size(cells)
      cells(i) = cell(0.5d0*i, i, -i)
    end do
  end subroutine
  subroutine expect(what, cells, weight, value, tag)
    use check
    character(*), intent(in) :: what
    type(cell), intent(in) :: cells(:)
    integer, intent(in) :: weight, value, tag
    call equal(what // ': weight', nint(2*sum(cells%weight)), weight)
    call equal(what // ': value', sum(cells%value), value)
    call equal(what // ': tag', sum(cells%tag), tag)
  end subroutine
end module
program main
  use check
  use cells_of
  implicit none
  integer, parameter :: s = n*(n + 1)/2
  type(cell), target :: cells(n)
  integer, pointer :: value(:), tag(:)
  real(8), pointer :: weight(:)
  integer :: i
  value => cells%value
  tag => cells%tag
  weight => cells%weight

  call fill(cells)
  !$acc parallel loop copy(value, tag, weight)
  do i = 1, n
    value(i) = value(i) + 1
    tag(i) = tag(i) - 2
    weight(i) = weight(i) + 1
  end do
  call expect('copy', cells, s + 2*n, s + n, -s - 2*n)

  ! The one that is not named is the program's.
  call fill(cells)
  !$acc parallel loop copyin(tag) copyout(value)
  do i = 1, n
    value(i) = 2*tag(i)
  end do
  call expect('copyin and copyout', cells, s, -2*s, -s)

  call fill(cells)
  !$acc parallel loop copy(weight) copy(tag) async(1)
  do i = 1, n
    weight(i) = weight(i) + tag(i)
    tag(i) = 0
  end do
  !$acc wait(1)
  call expect('async', cells, -s, s, 0)

  ! A data region holds them; constructs inside find them.
  call fill(cells)
  !$acc data copy(value) copyin(tag) create(weight)
  !$acc parallel loop
  do i = 1, n
    value(i) = value(i) + tag(i) + 1
    tag(i) = 9
  end do
  !$acc kernels loop copy(value)
  do i = 1, n
    value(i) = value(i) + 1
  end do
  if (separate()) call equal('inner', value(1), 1)
  cells%tag = 7
  !$acc update self(value(1:10))
  if (separate()) call equal('update', sum(value), 10*2 + (n*(n + 1) - 110)/2)
  !$acc end data
  call expect('data', cells, s, 2*n, 7*n)

  ! Parts of them, and some that are far from each other.
  call fill(cells)
  value => cells(2:10:2)%value
  tag => cells(5:12)%tag
  weight => cells(20:30)%weight
  !$acc parallel copy(value, tag, weight)
  !$acc loop
  do i = 1, 5
    value(i) = 0
  end do
  !$acc loop
  do i = 1, 8
    tag(i) = 0
  end do
  !$acc loop
  do i = 1, 11
    weight(i) = 0
  end do
  !$acc end parallel
  call expect('parts', cells, 19*20/2, s - 30, -s + (5 + 12)*4)
  call pass()
end program
