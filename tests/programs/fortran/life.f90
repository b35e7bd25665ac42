! A game of life in logicals of one byte, whose two fields are one array of rank 3.
program main
  use check
  implicit none
  integer, parameter :: n = 24
  logical(1) :: field(0:n + 1, 0:n + 1, 0:1)
  integer :: i, j, k, around, now, next, alive
  field = .false.
  ! A glider.
  field(2, 3, 0) = .true.
  field(3, 4, 0) = .true.
  field(4, 2:4, 0) = .true.
  !$acc data copy(field)
  do k = 0, 39
    now = mod(k, 2)
    next = 1 - now
    !$acc parallel loop collapse(2) private(around)
    do j = 1, n
      do i = 1, n
        around = count(field(i - 1:i + 1, j - 1:j + 1, now)) - merge(1, 0, field(i, j, now))
        field(i, j, next) = around == 3 .or. (around == 2 .and. field(i, j, now))
      end do
    end do
  end do
  alive = 0
  !$acc parallel loop collapse(2) reduction(+:alive)
  do j = 1, n
    do i = 1, n
      if (field(i, j, 0)) alive = alive + 1
    end do
  end do
  !$acc end data
  call equal('alive', alive, 5)
  call equal('it has moved', logical(field(12, 13, 0)), .true.)
  call equal('all of it', count(field(14, 12:14, 0)) == 3, .true.)
  call pass()
end program
