! Pointers to a component of an array of derived types: between their elements lie the other components. GCC computes
! lengths as if there were none, so the end of the array would be missing on the device.
module cells_of
  implicit none
  type cell
    real(8) :: weight
    integer :: value
    integer :: tag
  end type
contains
  subroutine fill(cells)
    type(cell), intent(out) :: cells(:)
    integer :: i
    do i = 1, size(cells)
      cells(i) = cell(0.5d0*i, i, -i)
    end do
  end subroutine
  ! Whatever a region does to the values, the other components are the program's.
  subroutine others(what, cells)
    use check
    character(*), intent(in) :: what
    type(cell), intent(in) :: cells(:)
    integer :: i
    do i = 1, size(cells)
      call equal(what // ': weight', nint(2*cells(i)%weight), i)
      call equal(what // ': tag', cells(i)%tag, -i)
    end do
  end subroutine
  subroutine dummy(p)
    integer, pointer, intent(in) :: p(:)
    integer :: i
    !$acc parallel loop copy(p)
    do i = 1, size(p)
      p(i) = p(i) + 1000
    end do
  end subroutine
end module
program main
  use check
  use cells_of
  implicit none
  integer, parameter :: n = 40
  type(cell), target :: cells(n), grid(4, 5)
  integer, pointer :: p(:), w(:), m(:, :)
  integer :: i, j, total, copied(n)
  p => cells%value

  call fill(cells)
  !$acc parallel loop copy(p)
  do i = 1, n
    p(i) = 10*p(i) + i
  end do
  call equal('copy', sum(cells%value), 11*n*(n + 1)/2)
  call equal('copy: last', cells(n)%value, 11*n)
  call others('copy', cells)

  call fill(cells)
  total = 0
  !$acc parallel loop copyin(p) copyout(copied) reduction(+: total)
  do i = 1, n
    copied(i) = p(i)
    total = total + p(i)
  end do
  call equal('copyin', total, n*(n + 1)/2)
  call equal('copyin: last', copied(n), n)

  call fill(cells)
  !$acc parallel loop copyout(p)
  do i = 1, n
    p(i) = 3*i
  end do
  call equal('copyout', sum(cells%value), 3*n*(n + 1)/2)
  call others('copyout', cells)

  ! The program changes the other components, and the elements that it does not ask for.
  call fill(cells)
  cells%weight = 0
  !$acc enter data create(p)
  !$acc parallel loop present(p)
  do i = 1, n
    p(i) = 7*i
  end do
  cells%weight = [(0.5d0*i, i = 1, n)]
  !$acc update self(p(30:35))
  if (separate()) call equal('update: one not asked for', p(36), 36)
  call equal('update: a section', sum(p(30:35)), 7*(30 + 35)*3)
  !$acc update self(p)
  call equal('update self', sum(cells%value), 7*n*(n + 1)/2)
  call others('update self', cells)
  p = -p
  !$acc update device(p)
  !$acc parallel loop present(p) async(2)
  do i = 1, n
    p(i) = p(i) + 1
  end do
  !$acc update self(p) async(2)
  !$acc wait(2)
  call equal('update device', sum(cells%value), n - 7*n*(n + 1)/2)
  p(20:) = 1
  !$acc update device(p(20:))
  !$acc parallel loop present(p)
  do i = 1, n
    p(i) = p(i) + 1
  end do
  !$acc exit data copyout(p)
  call equal('exit data', sum(cells(20:)%value), 2*21)
  call equal('exit data: before', p(19), 2 - 7*19)
  call others('exit data', cells)

  call fill(cells)
  !$acc data copy(p)
  !$acc parallel loop
  do i = 1, n
    p(i) = p(i) + 5
  end do
  !$acc end data
  call equal('data', sum(cells%value), n*(n + 1)/2 + 5*n)
  call others('data', cells)

  call fill(cells)
  !$acc parallel loop copy(p(11:30))
  do i = 11, 30
    p(i) = p(i) + 100
  end do
  call equal('a section', sum(cells%value), n*(n + 1)/2 + 2000)
  call equal('a section: last', p(30), 130)
  call others('a section', cells)

  call fill(cells)
  call dummy(p)
  call equal('a dummy', sum(cells%value), n*(n + 1)/2 + 1000*n)

  ! Every second cell, and from the last one on.
  call fill(cells)
  w => cells(2:n:2)%value
  !$acc parallel loop copy(w)
  do i = 1, size(w)
    w(i) = w(i) + i
  end do
  call equal('strided', sum(cells%value), n*(n + 1)/2 + (n/2)*(n/2 + 1)/2)
  w => cells(n:1:-1)%value
  !$acc parallel loop copy(w)
  do i = 1, size(w)
    w(i) = i
  end do
  call equal('backwards', cells(1)%value, n)
  call equal('backwards: sum', sum(cells%value), n*(n + 1)/2)
  call others('backwards', cells)

  do j = 1, 5
    do i = 1, 4
      grid(i, j) = cell(0, 10*i + j, 3)
    end do
  end do
  m => grid(1:4:2, :)%value
  !$acc parallel loop collapse(2) copy(m)
  do j = 1, 5
    do i = 1, 2
      m(i, j) = m(i, j) + 1
    end do
  end do
  call equal('of rank 2', sum(grid%value), 10*10*5 + 15*4 + 10)
  call equal('of rank 2: last', grid(3, 5)%value, 36)
  call equal('of rank 2: tags', sum(grid%tag), 60)
  m => grid(4:1:-1, 5:1:-1)%value
  !$acc parallel loop collapse(2) copyout(m)
  do j = 1, 5
    do i = 1, 4
      m(i, j) = 10*i + j
    end do
  end do
  call equal('of rank 2, backwards', grid(1, 1)%value, 45)
  call equal('of rank 2, backwards: tags', sum(grid%tag), 60)
  call pass()
end program
