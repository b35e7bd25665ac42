! Procedures that call themselves with data regions open: each level has data of its own.
program main
  use check
  implicit none
  integer :: i
  i = down(6)
  call equal('down', i, 6*10 + 5*10 + 4*10 + 3*10 + 2*10 + 10)
  call equal('sum of parts', int(halves([(real(i, 8), i = 1, 100)])), 5050)
  call pass()
contains
  recursive integer function down(n) result(r)
    integer, intent(in) :: n
    integer :: local(10), i
    local = 0
    r = 0
    !$acc data copy(local)
    !$acc parallel loop
    do i = 1, 10
      local(i) = local(i) + n
    end do
    if (n > 1) r = down(n - 1)
    !$acc parallel loop
    do i = 1, 10
      local(i) = local(i)*2
    end do
    !$acc end data
    r = r + sum(local)/2
  end function
  recursive real(8) function halves(x) result(s)
    real(8), intent(in) :: x(:)
    real(8) :: left, right
    integer :: i, half
    if (size(x) <= 8) then
      s = 0
      !$acc parallel loop copyin(x) reduction(+:s)
      do i = 1, size(x)
        s = s + x(i)
      end do
      return
    end if
    half = size(x)/2
    left = halves(x(:half))
    right = halves(x(half + 1:))
    s = left + right
  end function
end program
