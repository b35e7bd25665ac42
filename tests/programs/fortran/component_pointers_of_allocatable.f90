! Pointers to a component of an array that is allocatable or a pointer itself: GCC 12 gives them its descriptor, in which
! an element is a whole cell. Debug information tells them from sections of the array.
module cells_of
  implicit none
  type pair
    integer :: one, two
  end type
  type cell
    real(8) :: weight
    integer :: value
    integer :: tag
    complex(8) :: z
    type(pair) :: both
  end type
  type holder
    integer :: id
    type(cell), allocatable :: cells(:)
    integer, pointer :: p(:)
  end type
  type(cell), allocatable, target :: of_module(:)
  integer, pointer :: module_p(:)
  integer, parameter :: n = 48
contains
  subroutine fill(cells)
    type(cell), intent(out) :: cells(:)
    integer :: i
    do i = 1, size(cells)
      cells(i) = cell(0.5d0*i, i, -i, cmplx(i, 2*i, 8), pair(3*i, 4*i))
    end do
  end subroutine
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
  subroutine dummy_cells(cells)
    type(cell), allocatable, target, intent(inout) :: cells(:)
    integer, pointer :: p(:)
    integer :: i
    p => cells%value
    !$acc parallel loop copy(p)
    do i = 1, size(p)
      p(i) = p(i) + 2000
    end do
    !$acc parallel loop copy(cells(1:12))
    do i = 1, 12
      cells(i)%tag = cells(i)%tag - 1
    end do
    !$acc parallel loop copy(cells)
    do i = 1, 12
      cells(i)%tag = cells(i)%tag + 1
    end do
  end subroutine
  subroutine polymorphic(cells)
    use check
    class(cell), allocatable, target, intent(inout) :: cells(:)
    integer, pointer :: p(:)
    integer :: i
    p => cells%value
    !$acc parallel loop copy(p)
    do i = 1, size(p)
      p(i) = p(i) + 1
    end do
    call equal('class', sum(cells%value), n*(n + 1)/2 + n)
  end subroutine
end module
program main
  use check
  use cells_of
  implicit none
  type(cell), allocatable, target :: cells(:), grid(:, :)
  type(cell), pointer :: by_pointer(:)
  class(cell), allocatable, target :: classes(:)
  complex(8), allocatable, target :: numbers(:)
  type(holder), target :: h
  integer, pointer :: p(:), m(:, :)
  real(8), pointer :: re(:), im(:)
  complex(8), pointer :: z(:)
  type(pair), pointer :: both(:)
  integer :: i, j, total
  allocate (cells(n), by_pointer(n), of_module(n), h%cells(n), classes(n), numbers(n), grid(4, 8))

  ! As many values as make whole cells, and not.
  do j = 0, 1
    call fill(cells)
    p => cells%value
    if (j == 1) p => cells(1:n - 1)%value
    !$acc parallel loop copy(p)
    do i = 1, n - j
      p(i) = 10*p(i) + i
    end do
    call equal('allocatable', sum(cells%value), 11*n*(n + 1)/2 - j*10*n)
    call others('allocatable', cells)
  end do

  call fill(by_pointer)
  p => by_pointer%value
  total = 0
  !$acc parallel loop copyin(p) reduction(+: total)
  do i = 1, n
    total = total + p(i)
  end do
  call equal('pointer: copyin', total, n*(n + 1)/2)
  !$acc parallel loop copyout(p)
  do i = 1, n
    p(i) = 3*i
  end do
  call equal('pointer: copyout', sum(by_pointer%value), 3*n*(n + 1)/2)
  call others('pointer', by_pointer)
  !$acc serial copy(p(13:36))
  do i = 13, 36
    p(i) = 1
  end do
  !$acc end serial
  call equal('pointer: a section', sum(by_pointer%value), 3*(12*13/2 + n*(n + 1)/2 - 36*37/2) + 24)
  call others('pointer: a section', by_pointer)

  call fill(cells)
  p(0:) => cells%value
  !$acc enter data copyin(p)
  !$acc kernels loop present(p)
  do i = 0, n - 1
    p(i) = 7*(i + 1)
  end do
  !$acc update self(p(11:22))
  call equal('update: a section', sum(p(11:22)), 7*(12 + 23)*6)
  if (separate()) call equal('update: no more', p(23), 24)
  p(24:) = 1
  !$acc update device(p(24:))
  !$acc parallel loop present(p) async(1)
  do i = 0, n - 1
    p(i) = p(i) + 1
  end do
  !$acc exit data copyout(p) async(1)
  !$acc wait(1)
  call equal('exit data', sum(cells%value), 7*24*25/2 + 24 + 48)
  call others('exit data', cells)

  call fill(of_module)
  module_p => of_module%value
  !$acc data copy(module_p)
  !$acc parallel loop
  do i = 1, n
    module_p(i) = module_p(i) + 5
  end do
  !$acc end data
  call equal('module', sum(of_module%value), n*(n + 1)/2 + 5*n)
  call others('module', of_module)

  call fill(cells)
  p => cells%value
  call dummy(p)
  call dummy_cells(cells)
  call equal('dummies', sum(cells%value), n*(n + 1)/2 + 3000*n)
  call others('dummies', cells)

  call fill(h%cells)
  p => h%cells%value
  !$acc parallel loop copy(p)
  do i = 1, n
    p(i) = p(i) + 1
  end do
  call equal('component of a component', sum(h%cells%value), n*(n + 1)/2 + n)
  call others('component of a component', h%cells)

  call fill(classes)
  call polymorphic(classes)
  call others('class', classes)

  ! Other types: a structure, complex numbers and their parts.
  call fill(cells)
  both => cells%both
  z => cells%z
  re => cells%z%re
  !$acc parallel loop copy(both)
  do i = 1, n
    both(i)%two = both(i)%two + both(i)%one
  end do
  call equal('structures', sum(cells%both%two), 7*n*(n + 1)/2)
  !$acc parallel loop copy(z)
  do i = 1, n
    z(i) = 2*z(i)
  end do
  call equal('complex', nint(sum(real(cells%z))), n*(n + 1))
  !$acc parallel loop copy(re)
  do i = 1, n
    re(i) = 2*re(i)
  end do
  call equal('real part', nint(sum(real(cells%z))), 2*n*(n + 1))
  call equal('imaginary part', nint(sum(aimag(cells%z))), 2*n*(n + 1))
  call others('other types', cells)
  numbers = [(cmplx(i, -i, 8), i = 1, n)]
  im => numbers%im
  !$acc parallel loop copy(im)
  do i = 1, n
    im(i) = 2*im(i)
  end do
  call equal('numbers', nint(sum(aimag(numbers))), -n*(n + 1))
  call equal('numbers: real', nint(sum(real(numbers))), n*(n + 1)/2)

  call fill(grid(:, 1))
  do j = 2, 8
    grid(:, j) = grid(:, 1)
  end do
  m => grid%value
  !$acc parallel loop collapse(2) copy(m)
  do j = 1, 8
    do i = 1, 4
      m(i, j) = m(i, j) + 1
    end do
  end do
  call equal('of rank 2', sum(grid%value), 8*(10 + 4))
  do j = 1, 8
    call others('of rank 2', grid(:, j))
  end do

  ! Where the array is present nothing has to be told.
  call fill(cells)
  p => cells%value
  !$acc data copy(cells)
  !$acc parallel loop present(p)
  do i = 1, n
    p(i) = p(i) + 1
  end do
  !$acc end data
  call equal('present', sum(cells%value), n*(n + 1)/2 + n)
  call pass()
end program
