! A field over all devices: each has a slab, and the edges go from one to the next by way of the host in every step.
program main
  use check
  implicit none
  integer, parameter :: width = 12, height = 10, steps = 15
  real(8), allocatable :: u(:, :, :), v(:, :, :), whole(:, :), next(:, :)
  integer(acc_device_kind) :: kind
  integer :: parts, d, i, j, k, before
  kind = acc_get_device_type()
  parts = max(1, acc_get_num_devices(kind))
  before = acc_get_device_num(kind)
  allocate (u(0:width + 1, 0:height + 1, 0:parts - 1), v(0:width + 1, 0:height + 1, 0:parts - 1))
  allocate (whole(0:width + 1, 0:parts*height + 1), next(0:width + 1, 0:parts*height + 1))
  whole = 0
  whole(5, 3) = 100
  next = whole
  u = 0
  do d = 0, parts - 1
    u(:, :, d) = whole(:, d*height:(d + 1)*height + 1)
    call acc_set_device_num(d, kind)
    !$acc enter data copyin(u(:, :, d:d)) create(v(:, :, d:d))
  end do
  do k = 1, steps
    do d = 0, parts - 1
      call acc_set_device_num(d, kind)
      !$acc parallel loop collapse(2) present(u(:, :, d:d), v(:, :, d:d)) async(1)
      do j = 1, height
        do i = 1, width
          v(i, j, d) = (u(i - 1, j, d) + u(i + 1, j, d) + u(i, j - 1, d) + u(i, j + 1, d))/4
        end do
      end do
      !$acc parallel loop collapse(2) present(u(:, :, d:d), v(:, :, d:d)) async(1)
      do j = 1, height
        do i = 1, width
          u(i, j, d) = v(i, j, d)
        end do
      end do
      !$acc update self(u(:, 1:1, d:d)) async(1)
      !$acc update self(u(:, height:height, d:d)) async(1)
    end do
    do d = 0, parts - 1
      call acc_set_device_num(d, kind)
      !$acc wait(1)
    end do
    do d = 0, parts - 1
      if (d > 0) u(:, 0, d) = u(:, height, d - 1)
      if (d < parts - 1) u(:, height + 1, d) = u(:, 1, d + 1)
    end do
    do d = 0, parts - 1
      call acc_set_device_num(d, kind)
      !$acc update device(u(:, 0:0, d:d))
      !$acc update device(u(:, height + 1:height + 1, d:d))
    end do
    do j = 1, parts*height
      do i = 1, width
        next(i, j) = (whole(i - 1, j) + whole(i + 1, j) + whole(i, j - 1) + whole(i, j + 1))/4
      end do
    end do
    whole(1:width, 1:parts*height) = next(1:width, 1:parts*height)
  end do
  do d = 0, parts - 1
    call acc_set_device_num(d, kind)
    !$acc exit data copyout(u(:, :, d:d)) delete(v(:, :, d:d))
    do j = 1, height
      do i = 1, width
        call equal('u', abs(u(i, j, d) - whole(i, d*height + j)) < 1d-13, .true.)
      end do
    end do
  end do
  call acc_set_device_num(before, kind)
  call pass()
end program
