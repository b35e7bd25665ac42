! Absent optional arguments in every clause that takes a variable: they are nothing, and the region asks present().
module optionals
  implicit none
contains
  subroutine clauses(n, r, a, b, c, s, p)
    integer, intent(in) :: n
    integer, intent(out) :: r(n)
    integer, optional, intent(in) :: a(n)
    integer, optional, intent(inout) :: b(:)
    integer, optional, allocatable, intent(inout) :: c(:)
    integer, optional, intent(in) :: s
    integer, optional, pointer, intent(in) :: p(:)
    integer :: i
    !$acc data copyin(a, c, s, p) copy(b) copyout(r)
    !$acc parallel loop present(r)
    do i = 1, n
      r(i) = i
      if (present(a)) r(i) = r(i) + a(i)
      if (present(c)) r(i) = r(i) + c(i)
      if (present(s)) r(i) = r(i) + s
      if (present(p)) r(i) = r(i) + p(i)
      if (present(b)) b(i) = r(i)
    end do
    !$acc end data
  end subroutine
  subroutine implicit(n, r, a, b)
    integer, intent(in) :: n
    integer, intent(out) :: r(n)
    integer, optional, intent(in) :: a(n)
    integer, optional, intent(inout) :: b(:)
    integer :: i
    !$acc parallel loop
    do i = 1, n
      r(i) = i
      if (present(a)) r(i) = r(i) + a(i)
      if (present(b)) b(i) = r(i)
    end do
  end subroutine
  subroutine by_copyin(r, s, d)
    integer, intent(out) :: r
    integer, optional, intent(in) :: s
    real(8), optional, intent(in) :: d
    r = 0
    !$acc parallel copyin(s, d) copy(r)
    if (present(s)) r = r + s
    if (present(d)) r = r + int(d)
    !$acc end parallel
  end subroutine
  subroutine by_update(a, s, c)
    integer, optional, intent(inout) :: a(:)
    integer, optional, intent(inout) :: s
    integer, optional, allocatable, intent(inout) :: c(:)
    !$acc enter data copyin(a, s, c)
    !$acc update device(a, s, c)
    !$acc serial present(a, s, c)
    if (present(a)) a(1) = a(1) + 1
    if (present(s)) s = s + 1
    if (present(c)) c(1) = c(1) + 1
    !$acc end serial
    !$acc update self(a, s, c)
    !$acc exit data delete(a, s, c)
  end subroutine
  subroutine by_no_create(r, a)
    integer, intent(inout) :: r
    integer, optional, intent(in) :: a(:)
    !$acc serial no_create(a) copy(r)
    if (present(a)) r = r + 1
    !$acc end serial
  end subroutine
  integer function by_host_data(a) result(r)
    use openacc
    integer, optional, intent(in) :: a(:)
    r = 0
    !$acc host_data use_device(a)
    if (present(a)) r = 1
    !$acc end host_data
  end function
end module
program main
  use check
  use optionals
  implicit none
  integer :: a(20), b(20), r(20), s, i
  integer, allocatable :: c(:)
  integer, pointer :: p(:)
  a = 100
  s = 1000
  allocate (c(20), p(20))
  c = 10000
  p = 100000
  call clauses(20, r)
  call equal('nothing', sum(r), 210)
  call clauses(20, r, a, b, c, s, p)
  call equal('all', sum(r), 210 + 20*111100)
  call equal('b', sum(b), 210 + 20*111100)
  call clauses(20, r, c=c)
  call equal('c', sum(r), 210 + 20*10000)
  call clauses(20, r, s=s, p=p)
  call equal('s, p', sum(r), 210 + 20*101000)
  call implicit(20, r)
  call equal('implicit, nothing', sum(r), 210)
  call implicit(20, r, a, b)
  call equal('implicit, all', sum(r), 210 + 20*100)
  call equal('implicit b', sum(b), 210 + 20*100)
  call by_copyin(i)
  call equal('copyin, nothing', i, 0)
  call by_copyin(i, s, 5d0)
  call equal('copyin, all', i, 1005)
  call by_copyin(i, d=7d0)
  call equal('copyin, d', i, 7)
  call by_update()
  call by_update(a, s, c)
  call equal('a(1)', a(1), 101)
  call equal('s', s, 1001)
  call equal('c(1)', c(1), 10001)
  call by_update(s=s)
  call equal('s again', s, 1002)
  i = 0
  call by_no_create(i)
  !$acc data copyin(a)
  call by_no_create(i, a)
  call equal('present', by_host_data(a), 1)
  !$acc end data
  call equal('no_create', i, 1)
  call equal('absent', by_host_data(), 0)
  call pass()
end program
